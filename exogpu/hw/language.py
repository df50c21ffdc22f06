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
