"""Callees of a procedure: procedures, and instructions with compile-time parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from exogpu.ir.nodes import Instr, Proc
from exogpu.result.errors import Diagnostic


@runtime_checkable
class HasProc(Protocol):
    """A procedure object; `ir` is None if its definition was refused."""

    @property
    def ir(self) -> Proc | None: ...


@runtime_checkable
class Refused(Protocol):
    """A procedure object that says why its definition was refused."""

    @property
    def refusals(self) -> tuple[Diagnostic, ...]:
        """All that reading the definition found."""
        ...


@runtime_checkable
class InstrTemplate(Protocol):
    """An instruction before its compile-time parameters are known."""

    @property
    def constant_names(self) -> tuple[str, ...]: ...

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The others: data and control."""
        ...

    def instantiate(self, constants: Mapping[str, object]) -> Instr:
        """The instruction for these compile-time parameters; raises ExoGpuError."""
        ...
