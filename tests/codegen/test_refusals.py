"""What code generation cannot lower is refused, never lowered to something weaker."""

from __future__ import annotations

import pytest

from exogpu import proc
from exogpu.codegen.host_steps import emit
from exogpu.diagnostics.errors import ExoGpuError


@pytest.mark.parametrize("waits", [True, False])
def test_a_fence_cannot_wait_for_tma_loads(waits: bool) -> None:
    @proc
    def kernel(x: f32[32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[t] = 1
                if waits:
                    Fence(tma_to_smem_async, cuda_in_order)
                else:
                    Fence(cuda_in_order, cuda_in_order)

    if not waits:
        assert "x" in emit(kernel.facts).source
        return
    # A bare barrier would let the threads go on before the copies have landed.
    with pytest.raises(ExoGpuError) as refused:
        emit(kernel.facts)
    assert [d.code for d in refused.value.diagnostics] == ["G803"]
