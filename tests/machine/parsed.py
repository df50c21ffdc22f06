"""A function of the test as IR."""

from __future__ import annotations

import sys
from collections.abc import Callable

from exogpu.frontend.procedures import parse_proc
from exogpu.ir.nodes import Proc


def ir_of(function: Callable[..., object]) -> Proc:
    ir, diagnostics = parse_proc(function, sys._getframe(1))
    assert ir is not None, diagnostics
    return ir
