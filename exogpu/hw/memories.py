"""Data memories, barrier mechanisms and special windows (paper, appendix A)."""

from __future__ import annotations

import dataclasses
from typing import Final

from exogpu.diagnostics.errors import UnfitError
from exogpu.hw.units import (
    cuda_cluster,
    cuda_cta_in_cluster,
    cuda_thread,
    cuda_warp,
    cuda_warpgroup,
)
from exogpu.ir.types import BarrierMechanism, CollUnit, DataMemory, Space, SpecialWindow

_GLOBAL, _SHARED, _REGISTER = Space.GLOBAL, Space.SHARED, Space.REGISTER
_VISIBLE = ("CudaBasicDeviceVisible",)
_VISIBLE_16B = ("CudaDeviceVisibleAtomicity16B", *_VISIBLE)
_VISIBLE_LINEAR = ("CudaDeviceVisibleLinear", *_VISIBLE_16B)
_CTA = cuda_cta_in_cluster

DRAM: Final = DataMemory("DRAM", Space.HOST)

CudaBasicDeviceVisible: Final = DataMemory("CudaBasicDeviceVisible", _GLOBAL, abstract=True)
CudaDeviceVisibleAtomicity16B: Final = DataMemory(
    "CudaDeviceVisibleAtomicity16B", _GLOBAL, bases=_VISIBLE, abstract=True
)
CudaDeviceVisibleLinear: Final = DataMemory(
    "CudaDeviceVisibleLinear", _GLOBAL, bases=_VISIBLE_16B, abstract=True
)
CudaGmemLinear: Final = DataMemory("CudaGmemLinear", _GLOBAL, bases=_VISIBLE_LINEAR)
CudaGridConstant: Final = DataMemory("CudaGridConstant", Space.GRID_CONSTANT, sync_exempt=True)

CudaBasicSmem: Final = DataMemory("CudaBasicSmem", _SHARED, _CTA, _VISIBLE, abstract=True)
CudaSmemAtomicity16B: Final = DataMemory(
    "CudaSmemAtomicity16B", _SHARED, _CTA, ("CudaBasicSmem", *_VISIBLE_16B), abstract=True
)
CudaSmemLinear: Final = DataMemory(
    "CudaSmemLinear",
    _SHARED,
    _CTA,
    ("CudaSmemAtomicity16B", "CudaBasicSmem", *_VISIBLE_LINEAR),
)

CudaSmemCluster: Final = DataMemory("CudaSmemCluster", _SHARED, cuda_cluster, _VISIBLE_LINEAR)
"""Shared memory of a whole cluster: index i of the first dimension lies in CTA i, and any thread of
the cluster may access it.  So instructions take it that take any address, and none that ask for
the shared memory of their own CTA."""

CudaRmem: Final = DataMemory("CudaRmem", _REGISTER, cuda_thread)


def Sm90_SmemSwizzled(swizzle: int) -> DataMemory:
    """Shared memory in the layout that TMA and wgmma agree on; `swizzle` is 32, 64 or 128 bytes.

    Raises ValueError for another width.
    """
    if swizzle not in (32, 64, 128):
        raise UnfitError(
            f"Sm90_SmemSwizzled({swizzle!r}): the swizzle is 32, 64 or 128 bytes",
            "use one of these, or CudaSmemLinear for no swizzle",
        )
    swizzle = int(swizzle)  # of an enumeration's member, its value
    bases = ("CudaSmemAtomicity16B", "CudaBasicSmem", *_VISIBLE_16B)
    return DataMemory(f"Sm90_SmemSwizzled({swizzle})", _SHARED, _CTA, bases, swizzle=swizzle)


def _tile(name: str, unit: CollUnit, tile: tuple[int | None, ...], layout: str) -> DataMemory:
    return DataMemory(name, _REGISTER, unit, tile=tile, layout=layout)


def Sm80_RmemMatrixA(M: int, K: int) -> DataMemory:
    """Register tile of a warp: the A operand of mma.sync, M x K elements."""
    return _tile(f"Sm80_RmemMatrixA({M}, {K})", cuda_warp, (M, K), "mma A")


def Sm80_RmemMatrixB(N: int, K: int) -> DataMemory:
    """Register tile of a warp: the B operand of mma.sync, N x K elements."""
    return _tile(f"Sm80_RmemMatrixB({N}, {K})", cuda_warp, (N, K), "mma B")


def Sm80_RmemMatrixD(M: int, N: int) -> DataMemory:
    """Register tile of a warp: the accumulator of mma.sync, M x N elements."""
    return _tile(f"Sm80_RmemMatrixD({M}, {N})", cuda_warp, (M, N), "mma D")


def Sm90_RmemMatrixA(M: int) -> DataMemory:
    """Register tile of a warpgroup: the A operand of wgmma, M rows."""
    return _tile(f"Sm90_RmemMatrixA({M})", cuda_warpgroup, (M, None), "wgmma A")


def Sm90_RmemMatrixD(M: int, N: int) -> DataMemory:
    """Register tile of a warpgroup: the accumulator of wgmma, M x N elements."""
    return _tile(f"Sm90_RmemMatrixD({M}, {N})", cuda_warpgroup, (M, N), "wgmma D")


def Sm90_RmemRows(M: int) -> DataMemory:
    """Register tile of a warpgroup: M values, one for each row of an accumulator.

    It has M x 4 elements, four copies of each: every lane that has elements of a row holds one.
    """
    return _tile(f"Sm90_RmemRows({M})", cuda_warpgroup, (M, 4), "rows")


def Sm90_tensorMap(swizzle: int, *smem_box: int) -> SpecialWindow:
    """A tensor map: its swizzle in bytes (0, 32, 64 or 128) and the box it copies.

    Raises ValueError for another width or an empty box.
    """
    return _tensor_map("Sm90_tensorMap", swizzle, smem_box)


def Sm90_tensorMap_tf32(swizzle: int, *smem_box: int) -> SpecialWindow:
    """As Sm90_tensorMap, of f32 that is rounded to tf32 as it is loaded: to the nearest, ties to
    even (CUDA driver API, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32)."""
    return dataclasses.replace(_tensor_map("Sm90_tensorMap_tf32", swizzle, smem_box), tf32=True)


def _tensor_map(name: str, swizzle: int, smem_box: tuple[int, ...]) -> SpecialWindow:
    if swizzle not in (0, 32, 64, 128):
        message = f"the swizzle of a tensor map is 0, 32, 64 or 128 bytes, not {swizzle!r}"
        raise UnfitError(message, "give one of these first, then the extents of the box")
    if not smem_box or not all(type(n) is int and n >= 1 for n in smem_box):
        message = f"the box of a tensor map is {', '.join(map(repr, smem_box)) or 'missing'}"
        raise UnfitError(message, f"give its extents in elements, such as {name}(0, 8, 32)")
    swizzle = int(swizzle)  # of an enumeration's member, its value
    arguments = ", ".join(str(n) for n in (swizzle, *smem_box))
    return SpecialWindow(f"{name}({arguments})", swizzle, smem_box)


CudaMbarrier: Final = BarrierMechanism.MBARRIER
CudaCommitGroup: Final = BarrierMechanism.COMMIT_GROUP
CudaClusterSync: Final = BarrierMechanism.CLUSTER_SYNC
CudaFlag: Final = BarrierMechanism.FLAG
CudaNamedBarrier: Final = BarrierMechanism.NAMED_BARRIER
