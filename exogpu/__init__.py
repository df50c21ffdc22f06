"""exogpu: GPU kernels whose parallel execution is checked against their sequential reading.

    from __future__ import annotations
    from exogpu import *

    @proc
    def kernel(n: size, x: f32[n] @ CudaGmemLinear): ...

Every name of the language (`f32`, `CudaSmemLinear`, `cuda_warp`, `cuda_in_order`, ...) is known
inside a procedure without an import; the import makes them Python names too.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING

from exogpu.diagnostics import errors
from exogpu.diagnostics.errors import Diagnostic, ExoGpuError, Span
from exogpu.diagnostics.hazards import Hazard, HazardKind
from exogpu.diagnostics.process_start import STARTED as _STARTED  # noqa: F401  taken as early as can be
from exogpu.diagnostics.verdict import Policy, Verdict
from exogpu.hw.names import *  # noqa: F403

if TYPE_CHECKING:
    from exogpu.api import Procedure, proc
    from exogpu.frontend.instructions import instr
    from exogpu.frontend.macros import macro
    from exogpu.imported import watch_triton


def _text(verdict: Verdict) -> str:
    from exogpu.report.render_verdict import draw_verdict

    return draw_verdict(verdict).plain.removesuffix("\n")


def _html(verdict: Verdict) -> str:
    from exogpu.report.notebook import verdict_card

    return verdict_card(verdict)


def _lines(diagnostics: tuple[Diagnostic, ...]) -> list[str]:
    return _text(Verdict("", "error", None, Policy.PTX, 0.0, diagnostics=diagnostics)).splitlines()


# What draws is loaded when something is drawn.
errors.install(errors.Drawings(_text, _html, _lines))

_SOLVING = {
    "Procedure": "exogpu.api",
    "proc": "exogpu.api",
    "instr": "exogpu.frontend.instructions",
    "macro": "exogpu.frontend.macros",
    "watch_triton": "exogpu.imported",
}
"""Names that need the solvers, imported on first use: `exogpu doctor` runs where one is missing."""


def __getattr__(name: str) -> object:
    if name not in _SOLVING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = vars(_importlib.import_module(_SOLVING[name]))[name]
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_SOLVING})


# With the names of exogpu.hw.names: a type checker reads no list but one that is written out.
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
    "Diagnostic",
    "ExoGpuError",
    "Hazard",
    "HazardKind",
    "Policy",
    "Procedure",
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
    "Span",
    "Verdict",
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
    "instr",
    "macro",
    "proc",
    "standalone_thread",
    "tma_to_gmem_async",
    "tma_to_gmem_source",
    "tma_to_smem_async",
    "ui8",
    "ui16",
    "ui32",
    "ui64",
    "watch_triton",
    "wgmma_async",
    "wgmma_async_smem",
    "wgmma_fence_1",
    "wgmma_fence_2",
]
