"""Values from memory as emitted code: what a thread loads, and what happens outside the range.

Decision `loaded-range`.
"""

from __future__ import annotations

import ctypes
import shutil

import numpy as np
import pytest
from fake_cuda import CudaArray, FakeDriver, aligned

from campaigns.emulator.launch import Emulated, EmulatedError
from campaigns.emulator.orders import ORDERS
from exogpu import proc
from exogpu.codegen.host_steps import emit
from exogpu.codegen.runtime import Kernel, LaunchError, driver
from exogpu.codegen.runtime.arrays import broken_elements, describe_fault
from exogpu.codegen.runtime.manifest import Contract
from exogpu.hw.language import i32, i64

emulating = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")


def make_spans(T):
    @proc(name=f"spans_{T.value}")
    def spans(G: size, M: size, offsets: T[G + 1] @ CudaGmemLinear, y: f32[M] @ CudaGmemLinear):
        """A task has the elements of its group, and a warp each every eighth of them."""
        assert monotone(offsets)
        with CudaDeviceFunction(blockDim=64):
            for g in cuda_tasks(0, G):
                lo = load_index(offsets[g], 0, M + 1)
                for w in cuda_threads(0, 2, unit=cuda_warp):
                    hi = load_index(offsets[g + 1], lo, M + 1)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        for i in seq(0, (hi - lo + 63) / 64):
                            if lo + 64 * i + 32 * w + t < hi:
                                y[lo + 64 * i + 32 * w + t] += 1.0

    return spans


def emitted(procedure):
    return procedure.emit(unchecked=True)


@pytest.fixture(scope="module")
def emulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("emulated")

    def run(procedure):
        made, manifest = emitted(procedure)
        return Emulated(made.source, manifest, folder)

    return run


def test_a_load_is_checked_where_it_stands():
    made, manifest = emitted(make_spans(i32))
    lines = [line.strip() for line in made.source.splitlines()]
    texts = manifest["loads"]
    number = {text.partition(" = ")[0]: line for line, text in texts.items()}
    assert (
        f"[[maybe_unused]] const int lo = checked_index(offsets[g], 0, M + 1, {number['lo']});"
        in lines
    )
    assert (
        f"[[maybe_unused]] const int hi = checked_index(offsets[g + 1], lo, M + 1, {number['hi']});"
        in lines
    )
    assert "const int* __restrict__ offsets" in made.source  # the read-only path of the cache
    assert texts[number["lo"]] == "lo = load_index(offsets[g], 0, M + 1)"
    assert manifest["contracts"] == [{"kind": "monotone", "array": "offsets"}]


@pytest.mark.slow
@emulating
@pytest.mark.parametrize("T", [i32, i64], ids=lambda T: T.value)
def test_right_in_every_order(T, emulated):
    run = emulated(make_spans(T))
    kind = np.int32 if T is i32 else np.int64
    for order in ORDERS:
        offsets, y = np.array([2, 2, 70, 201, 201], kind), np.zeros(210, np.float32)
        run({"offsets": offsets, "y": y}, {"G": 4, "M": 210}, order)
        assert (y[2:201] == 1).all() and y.sum() == 199


@pytest.mark.slow
@emulating
@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ([0, 211], "211, no index of 0 .. 210"),
        ([-1, 5], "-1, no index of 0 .. 210"),
        ([7, 5], "5, no index of 7 .. 210"),
        ([2**32 + 5, 2**32 + 7], "4294967301, no index of 0 .. 210"),
    ],
)
def test_what_is_outside_its_range_is_never_used(offsets, said, emulated):
    run = emulated(make_spans(i64))
    y = np.zeros(210, np.float32)
    with pytest.raises(EmulatedError, match=said):
        run({"offsets": np.array(offsets, np.int64), "y": y}, {"G": 1, "M": 210}, ORDERS[0])
    assert not y.any()


@proc
def ring(M: size, L: size, lengths: i32[M] @ CudaGmemLinear, y: f32[M] @ CudaGmemLinear):
    """As many steps of a pipeline as memory says."""
    with CudaDeviceFunction(
        warp_config=[
            CudaWarpConfig("load", 1),
            CudaWarpConfig("store", 1),
        ]
    ):
        for m in cuda_tasks(0, M):
            n = load_index(lengths[m], 0, L)
            full: barrier @ CudaMbarrier
            empty: barrier(full) @ CudaMbarrier
            tile: f32[2] @ CudaSmemLinear
            for k in seq(0, n):
                with CudaWarps(name="load"):
                    Await(empty, cuda_in_order, ~2)
                    for t in cuda_threads(0, 1, unit=cuda_thread):
                        tile[k % 2] = 1.0
                    Arrive(cuda_in_order) >> full
                with CudaWarps(name="store"):
                    Await(full, cuda_in_order, ~0)
                    for t in cuda_threads(0, 1, unit=cuda_thread):
                        y[m] += tile[k % 2]
                    Arrive(cuda_in_order) >> empty
            Fence(cuda_in_order, cuda_in_order)


@pytest.mark.slow
@emulating
def test_a_pipeline_of_as_many_steps_as_memory_says(emulated):
    run = emulated(ring)
    lengths = np.array([3, 0, 7, 1, 2], np.int32)
    for order in ORDERS:
        y = np.zeros(5, np.float32)
        run({"lengths": lengths, "y": y}, {"M": 5, "L": 8}, order)
        assert (y == lengths).all()


# --- what is assumed, and what went wrong ---------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "elements", "said", "least"),
    [
        ("injective", [-1, 4, -1, 3], "", 0),
        ("injective", [-1, 4, -1, 3, 4], "a[1] and a[4] are 4", 0),
        ("monotone", [0, -1, 0, -1, 2], "", 0),
        ("monotone", [1, -1, 0, -1, 2], "a[0] is 1, and a[2] is 0", 0),
        ("monotone", [], "", None),
        ("monotone", [4], "", None),
        ("monotone", [-3, -3, 0, 9], "", None),
        ("monotone", [0, 5, 4, 3], "a[1] is 5, and a[2] is 4", None),
        ("injective", [], "", None),
        ("injective", [9, -9, 0], "", None),
        ("injective", [1, 2, 3, 2, 1], "a[1] and a[3] are 2", None),
    ],
)
def test_the_first_elements_that_break_a_contract(kind, elements, said, least):
    assert broken_elements(Contract(kind, "a", least), elements) == said


@pytest.fixture
def fake(monkeypatch):
    for cached in (driver.gpus, driver._primary):
        cached.cache_clear()
    made = FakeDriver()
    monkeypatch.setattr(driver, "_driver", lambda: made)
    yield made
    for cached in (driver.gpus, driver._primary):
        cached.cache_clear()


@pytest.mark.parametrize("T", [i32, i64], ids=lambda T: T.value)
@pytest.mark.parametrize("of", [CudaArray, lambda a: a], ids=["device", "numpy"])
def test_contracts_are_looked_at_on_request(fake, T, of):
    kernel = Kernel(emitted(make_spans(T))[1], b"cubin")
    offsets = aligned((4,), np.int32 if T is i32 else np.int64)
    offsets[...] = [0, 2, 2, 9]
    y = aligned((9,))
    kernel.check_contracts(of(offsets), of(y), G=3)
    offsets[...] = [0, 3, 2, 9]
    said = r"monotone\(offsets\) does not hold: offsets\[1\] is 3, and offsets\[2\] is 2"
    with pytest.raises(LaunchError, match=said):
        kernel.check_contracts(of(offsets), of(y), G=3)
    assert "cuLaunchKernelEx" not in fake.names()
    with pytest.raises(LaunchError, match="no array is given for y"):
        kernel.check_contracts(of(offsets))


def test_a_kernel_that_ended_itself_says_which_index_it_was(fake):
    """The fake kernel writes where `wrong_index` points, as `checked_index` does."""
    pointed = ctypes.c_uint64()

    def call(name, *arguments):
        if name == "cuModuleGetGlobal_v2":
            assert arguments[3] == b"wrong_index"
            arguments[0]._obj.value, arguments[1]._obj.value = ctypes.addressof(pointed), 8
        elif name == "cuMemHostAlloc":
            held = ctypes.create_string_buffer(arguments[1].value)
            fake.memory["host"] = held
            arguments[0]._obj.value = ctypes.addressof(held)
        elif name == "cuMemcpyHtoD_v2":
            ctypes.memmove(arguments[0].value, arguments[1], arguments[2].value)
        elif name == "cuStreamSynchronize" and failing:
            return 719
        else:
            return plain(name, *arguments)
        return 0

    plain, fake.call, failing = fake.call, call, False
    _, manifest = emitted(make_spans(i32))
    kernel = Kernel(manifest, b"cubin")
    arrays = aligned((2,), np.int32), aligned((9,))
    kernel(*arrays, G=1)
    assert kernel.wrong_index == ""
    line = next(line for line, text in manifest["loads"].items() if text.startswith("hi"))
    (ctypes.c_longlong * 4).from_address(pointed.value)[:] = (17, 3, 10, int(line))
    said = f"line {line}: hi = load_index(offsets[g + 1], lo, M + 1): 17 is not one of 3 .. 9"
    assert kernel.wrong_index == said
    failing = True
    with pytest.raises(LaunchError) as raised:
        kernel(*arrays, G=1)
    assert raised.value.problem == said


def test_a_line_that_the_manifest_does_not_have():
    written = (ctypes.c_longlong * 4)(9, 0, 4, 12)
    assert describe_fault(written, {}) == "load_index: 9 is not one of 0 .. 3"


def test_arrays_that_no_launch_writes_alone_have_a_contract_in_c():
    made = emit_of(make_spans(i32))
    assert "spans_i32_check_contracts(" in made.host.header
    assert 'check("offsets", false, INT64_MIN, offsets, elements({G + 1})' in made.host.source
    assert "check_contracts" not in emit_of(ring).host.header


def emit_of(procedure):
    return emitted(procedure)[0]


def test_who_counts_for_others_loads_what_they_do():
    """b awaits as often as memory says; c, which awaits after it, must know how often that was."""

    @proc
    def kernel(M: size, lengths: i32[M] @ CudaGmemLinear):
        with CudaDeviceFunction(
            warp_config=[CudaWarpConfig("a", 1), CudaWarpConfig("b", 1), CudaWarpConfig("c", 1)]
        ):
            for m in cuda_tasks(0, M):
                full: barrier @ CudaMbarrier
                for k in seq(0, 8):
                    with CudaWarps(name="a"):
                        Arrive(cuda_in_order) >> full
                with CudaWarps(name="b"):
                    n = load_index(lengths[m], 0, 7)
                    for k in seq(0, n):
                        Await(full, cuda_in_order, ~0)
                with CudaWarps(name="c"):
                    Await(full, cuda_in_order, ~0)
                Fence(cuda_in_order, cuda_in_order)

    text = emit(kernel.facts, depths={"full": 8}).source.partition("__global__")[2]
    of_c = text.rpartition("else {")[2]
    assert "const int n = checked_index(lengths[m], 0, 7," in of_c
    assert "full_awaited + unsigned(n)" in of_c or "full_awaited += unsigned(n)" in of_c, of_c
    assert of_c.index("checked_index") < of_c.index("mbarrier_wait")


def test_a_value_is_bound_once_where_turns_are_taken():
    """A range of several values is no loop of several iterations: the cluster's turns alternate."""

    @proc
    def kernel(M: size, lengths: i32[M] @ CudaGmemLinear, y: f32[5] @ CudaGmemLinear):
        with CudaDeviceFunction(clusterDim=2, blockDim=32):
            for m in cuda_tasks(0, M):
                met: barrier @ CudaClusterSync
                Arrive(cuda_in_order) >> met
                n = load_index(lengths[m], 0, 5)
                for c in cuda_threads(0, 1, unit=cuda_cta_in_cluster):
                    for t in cuda_threads(0, 1, unit=cuda_thread):
                        y[n] = 0.0
                Await(met, cuda_in_order, 0)

    assert emit_of(kernel).source.count("barrier.cluster.arrive") == 1


def test_counts_of_the_longest_loops_do_not_overflow():
    """Twice 2**31 - 1 and what was counted before are more than 32 bits have, and 12 divides no
    power of two: what the loop counts is added twice."""

    @proc
    def kernel(M: size, lengths: i32[M] @ CudaGmemLinear):
        with CudaDeviceFunction(
            warp_config=[CudaWarpConfig("a", 1), CudaWarpConfig("b", 1), CudaWarpConfig("c", 1)]
        ):
            for m in cuda_tasks(0, M):
                full: barrier @ CudaMbarrier
                for k in seq(0, 8):
                    with CudaWarps(name="a"):
                        Arrive(cuda_in_order) >> full
                with CudaWarps(name="b"):
                    n = load_index(lengths[m], 0, 4)
                    for k in seq(0, n):
                        Await(full, cuda_in_order, ~0)
                        Await(full, cuda_in_order, ~0)
                with CudaWarps(name="c"):
                    Await(full, cuda_in_order, ~0)
                Fence(cuda_in_order, cuda_in_order)

    text = emit(kernel.facts, depths={"full": 6}).source
    assert text.count("full_awaited = (full_awaited + unsigned(n)) % 12;") == 2
