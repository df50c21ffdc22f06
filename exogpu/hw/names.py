"""The names of the language as names of Python, for `from exogpu import *` and type checkers.

They are those of `exogpu.hw.language`, written out: a type checker executes nothing.
"""

from __future__ import annotations

from typing import Final

from exogpu.hw.memories import (
    DRAM as DRAM,
)
from exogpu.hw.memories import (
    CudaBasicDeviceVisible as CudaBasicDeviceVisible,
)
from exogpu.hw.memories import (
    CudaBasicSmem as CudaBasicSmem,
)
from exogpu.hw.memories import (
    CudaClusterSync as CudaClusterSync,
)
from exogpu.hw.memories import (
    CudaCommitGroup as CudaCommitGroup,
)
from exogpu.hw.memories import (
    CudaDeviceVisibleAtomicity16B as CudaDeviceVisibleAtomicity16B,
)
from exogpu.hw.memories import (
    CudaDeviceVisibleLinear as CudaDeviceVisibleLinear,
)
from exogpu.hw.memories import (
    CudaFlag as CudaFlag,
)
from exogpu.hw.memories import (
    CudaGmemLinear as CudaGmemLinear,
)
from exogpu.hw.memories import (
    CudaGridConstant as CudaGridConstant,
)
from exogpu.hw.memories import (
    CudaMbarrier as CudaMbarrier,
)
from exogpu.hw.memories import (
    CudaNamedBarrier as CudaNamedBarrier,
)
from exogpu.hw.memories import (
    CudaRmem as CudaRmem,
)
from exogpu.hw.memories import (
    CudaSmemAtomicity16B as CudaSmemAtomicity16B,
)
from exogpu.hw.memories import (
    CudaSmemCluster as CudaSmemCluster,
)
from exogpu.hw.memories import (
    CudaSmemLinear as CudaSmemLinear,
)
from exogpu.hw.memories import (
    Sm80_RmemMatrixA as Sm80_RmemMatrixA,
)
from exogpu.hw.memories import (
    Sm80_RmemMatrixB as Sm80_RmemMatrixB,
)
from exogpu.hw.memories import (
    Sm80_RmemMatrixD as Sm80_RmemMatrixD,
)
from exogpu.hw.memories import (
    Sm90_RmemMatrixA as Sm90_RmemMatrixA,
)
from exogpu.hw.memories import (
    Sm90_RmemMatrixD as Sm90_RmemMatrixD,
)
from exogpu.hw.memories import (
    Sm90_RmemRows as Sm90_RmemRows,
)
from exogpu.hw.memories import (
    Sm90_SmemSwizzled as Sm90_SmemSwizzled,
)
from exogpu.hw.memories import (
    Sm90_tensorMap as Sm90_tensorMap,
)
from exogpu.hw.memories import (
    Sm90_tensorMap_tf32 as Sm90_tensorMap_tf32,
)
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.hw.units import (
    cuda_agnostic_intact_cta as cuda_agnostic_intact_cta,
)
from exogpu.hw.units import (
    cuda_agnostic_sub_cta as cuda_agnostic_sub_cta,
)
from exogpu.hw.units import (
    cuda_cluster as cuda_cluster,
)
from exogpu.hw.units import (
    cuda_cta_in_cluster as cuda_cta_in_cluster,
)
from exogpu.hw.units import (
    cuda_cta_in_cluster_strided as cuda_cta_in_cluster_strided,
)
from exogpu.hw.units import (
    cuda_quadpair as cuda_quadpair,
)
from exogpu.hw.units import (
    cuda_thread as cuda_thread,
)
from exogpu.hw.units import (
    cuda_threads_strided as cuda_threads_strided,
)
from exogpu.hw.units import (
    cuda_warp as cuda_warp,
)
from exogpu.hw.units import (
    cuda_warp_in_cluster as cuda_warp_in_cluster,
)
from exogpu.hw.units import (
    cuda_warp_in_cluster_strided as cuda_warp_in_cluster_strided,
)
from exogpu.hw.units import (
    cuda_warpgroup as cuda_warpgroup,
)
from exogpu.hw.units import (
    standalone_thread as standalone_thread,
)
from exogpu.ir.nodes import WarpConfig as CudaWarpConfig
from exogpu.ir.types import DataType

f8e4m3: Final = DataType.F8E4M3
f8e5m2: Final = DataType.F8E5M2
f16: Final = DataType.F16
bf16: Final = DataType.BF16
f32: Final = DataType.F32
f64: Final = DataType.F64
i8: Final = DataType.I8
i32: Final = DataType.I32
i64: Final = DataType.I64
ui8: Final = DataType.UI8
ui16: Final = DataType.UI16
ui32: Final = DataType.UI32
ui64: Final = DataType.UI64

empty_sync_tl: Final = SYNC_TIMELINES["empty_sync_tl"]
cpu_in_order: Final = SYNC_TIMELINES["cpu_in_order"]
cuda_stream_sync: Final = SYNC_TIMELINES["cuda_stream_sync"]
cuda_in_order: Final = SYNC_TIMELINES["cuda_in_order"]
cuda_temporal: Final = SYNC_TIMELINES["cuda_temporal"]
Sm80_cp_async: Final = SYNC_TIMELINES["Sm80_cp_async"]
Sm80_generic: Final = SYNC_TIMELINES["Sm80_generic"]
tma_to_smem_async: Final = SYNC_TIMELINES["tma_to_smem_async"]
tma_to_gmem_async: Final = SYNC_TIMELINES["tma_to_gmem_async"]
tma_to_gmem_source: Final = SYNC_TIMELINES["tma_to_gmem_source"]
wgmma_async_smem: Final = SYNC_TIMELINES["wgmma_async_smem"]
wgmma_fence_1: Final = SYNC_TIMELINES["wgmma_fence_1"]
wgmma_fence_2: Final = SYNC_TIMELINES["wgmma_fence_2"]
wgmma_async: Final = SYNC_TIMELINES["wgmma_async"]
cuda_async_proxy: Final = SYNC_TIMELINES["cuda_async_proxy"]
cuda_async_proxy_wgmma: Final = SYNC_TIMELINES["cuda_async_proxy_wgmma"]
cuda_generic_and_async: Final = SYNC_TIMELINES["cuda_generic_and_async"]

__all__ = [
    "DRAM",
    "CudaBasicDeviceVisible",
    "CudaBasicSmem",
    "CudaClusterSync",
    "CudaCommitGroup",
    "CudaDeviceVisibleAtomicity16B",
    "CudaDeviceVisibleLinear",
    "CudaFlag",
    "CudaGmemLinear",
    "CudaGridConstant",
    "CudaMbarrier",
    "CudaNamedBarrier",
    "CudaRmem",
    "CudaSmemAtomicity16B",
    "CudaSmemCluster",
    "CudaSmemLinear",
    "CudaWarpConfig",
    "Sm80_RmemMatrixA",
    "Sm80_RmemMatrixB",
    "Sm80_RmemMatrixD",
    "Sm80_cp_async",
    "Sm80_generic",
    "Sm90_RmemMatrixA",
    "Sm90_RmemMatrixD",
    "Sm90_RmemRows",
    "Sm90_SmemSwizzled",
    "Sm90_tensorMap",
    "Sm90_tensorMap_tf32",
    "bf16",
    "cpu_in_order",
    "cuda_agnostic_intact_cta",
    "cuda_agnostic_sub_cta",
    "cuda_async_proxy",
    "cuda_async_proxy_wgmma",
    "cuda_cluster",
    "cuda_cta_in_cluster",
    "cuda_cta_in_cluster_strided",
    "cuda_generic_and_async",
    "cuda_in_order",
    "cuda_quadpair",
    "cuda_stream_sync",
    "cuda_temporal",
    "cuda_thread",
    "cuda_threads_strided",
    "cuda_warp",
    "cuda_warp_in_cluster",
    "cuda_warp_in_cluster_strided",
    "cuda_warpgroup",
    "empty_sync_tl",
    "f8e4m3",
    "f8e5m2",
    "f16",
    "f32",
    "f64",
    "i8",
    "i32",
    "i64",
    "standalone_thread",
    "tma_to_gmem_async",
    "tma_to_gmem_source",
    "tma_to_smem_async",
    "ui8",
    "ui16",
    "ui32",
    "ui64",
    "wgmma_async",
    "wgmma_async_smem",
    "wgmma_fence_1",
    "wgmma_fence_2",
]
