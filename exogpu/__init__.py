"""exogpu: GPU kernels whose parallel execution is checked against their sequential reading.

    from __future__ import annotations
    from exogpu import *

    @proc
    def kernel(n: size, x: f32[n] @ CudaGmemLinear): ...

Every name of the language (`f32`, `CudaSmemLinear`, `cuda_warp`, `cuda_in_order`, ...) is known
inside a procedure without an import; the import makes them Python names too.
"""

import importlib as _importlib
from typing import TYPE_CHECKING

from exogpu.hw.language import LANGUAGE as _LANGUAGE
from exogpu.ir.types import Policy
from exogpu.result.errors import Diagnostic, ExoGpuError, Span
from exogpu.result.started import STARTED as _STARTED  # noqa: F401  taken as early as can be
from exogpu.result.verdict import Hazard, HazardKind, Verdict

if TYPE_CHECKING:
    from exogpu.api import Procedure, proc
    from exogpu.frontend.instructions import instr
    from exogpu.frontend.macros import macro

_SOLVING = {
    "Procedure": "exogpu.api",
    "proc": "exogpu.api",
    "instr": "exogpu.frontend.instructions",
    "macro": "exogpu.frontend.macros",
}
"""Names that need the solvers, imported on first use: `exogpu doctor` runs where one is missing."""


def __getattr__(name: str) -> object:
    if name not in _SOLVING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = vars(_importlib.import_module(_SOLVING[name]))[name]
    globals()[name] = value
    return value


globals().update(_LANGUAGE)

__all__ = [
    "Diagnostic",
    "ExoGpuError",
    "Hazard",
    "HazardKind",
    "Policy",
    "Procedure",
    "Span",
    "Verdict",
    "instr",
    "macro",
    "proc",
    *_LANGUAGE,
]
