"""The names that every kernel knows without importing them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from exogpu.hw import memories, units
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.nodes import WarpConfig
from exogpu.ir.types import DataType

DATA_TYPES: Final[Mapping[str, DataType]] = {t.value: t for t in DataType}

MEMORIES: Final[tuple[str, ...]] = (
    "DRAM",
    "CudaBasicDeviceVisible",
    "CudaBasicSmem",
    "CudaDeviceVisibleAtomicity16B",
    "CudaDeviceVisibleLinear",
    "CudaGridConstant",
    "CudaGmemLinear",
    "CudaSmemAtomicity16B",
    "CudaSmemCluster",
    "CudaSmemLinear",
    "CudaRmem",
    "Sm80_RmemMatrixA",
    "Sm80_RmemMatrixB",
    "Sm80_RmemMatrixD",
    "Sm90_SmemSwizzled",
    "Sm90_RmemMatrixA",
    "Sm90_RmemMatrixD",
    "Sm90_RmemRows",
    "Sm90_tensorMap",
    "Sm90_tensorMap_tf32",
    "CudaMbarrier",
    "CudaCommitGroup",
    "CudaClusterSync",
    "CudaFlag",
    "CudaNamedBarrier",
)

UNITS: Final[tuple[str, ...]] = (
    "standalone_thread",
    "cuda_thread",
    "cuda_quadpair",
    "cuda_warp",
    "cuda_warpgroup",
    "cuda_threads_strided",
    "cuda_warp_in_cluster",
    "cuda_cta_in_cluster",
    "cuda_cluster",
    "cuda_cta_in_cluster_strided",
    "cuda_warp_in_cluster_strided",
    "cuda_agnostic_sub_cta",
    "cuda_agnostic_intact_cta",
)

LANGUAGE: Final[Mapping[str, object]] = {
    **DATA_TYPES,
    **{name: vars(memories)[name] for name in MEMORIES},
    **{name: vars(units)[name] for name in UNITS},
    **SYNC_TIMELINES,
    "CudaWarpConfig": WarpConfig,
}
"""Data types, memories, units, timelines and CudaWarpConfig, by name."""


# The data types by the names that kernels use.

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
