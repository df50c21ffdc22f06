"""An index that goes round further than its ring does."""

from __future__ import annotations

from exogpu import proc


@proc
def one_slot_more(K: size, x: f32[K, 32] @ CudaGmemLinear, y: f32[K, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            tile: f32[2, 32] @ CudaSmemLinear
            for k in seq(0, K):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    tile[k % 3, t] = x[k, t]
                    y[k, t] = tile[k % 2, t]
                Fence(cuda_in_order, cuda_in_order)


def test_it_is_told_how_many_slots_there_are() -> None:
    """A guard would leave steps out, and no sizes help."""
    (hazard,) = one_slot_more.check().hazards
    assert (hazard.code, hazard.sizes) == ("B601", {"K": 3})
    assert hazard.help == "the ring has 2 slots: write % 2 for % 3"
