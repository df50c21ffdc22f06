import numpy as np, pytest, sys
sys.path.insert(0,'/work/main/tests/machine')
from hypothesis import given, settings, strategies as st, HealthCheck
from random_procs import procs, arguments
from exogpu.errors import ExoGpuError
from exogpu.machine import naive, sequential
from exogpu.machine.sequential import execute
N=int(__import__('os').environ.get('N','300'))
stats={}
@settings(derandomize=True, max_examples=N, deadline=None, suppress_health_check=list(HealthCheck))
@given(procs(), st.integers(0, 3), st.sampled_from([2, 5, 40, 1 << 20]))
def test_agree(proc, seed, instances):
    a, b = arguments(proc, seed), arguments(proc, seed)
    execute.INSTANCES = instances
    err = None
    try: naive.run(proc, a)
    except ExoGpuError as e: err = e
    if err is not None:
        with pytest.raises(ExoGpuError): sequential.run(proc, b)
        stats['err']=stats.get('err',0)+1
        return
    sequential.run(proc, b)
    stats['ok']=stats.get('ok',0)+1
    for n in a: np.testing.assert_array_equal(a[n], b[n], err_msg=n)
def test_stats(): print(stats)
