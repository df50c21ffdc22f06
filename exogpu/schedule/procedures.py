"""What scheduling asks of a procedure, and the chain of derivations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary

from exogpu.ir.nodes import Proc
from exogpu.ir.printer import print_proc
from exogpu.result.errors import Diagnostic, ExoGpuError
from exogpu.schedule.reading import refusals
from exogpu.schedule.rewrite import Path, Rewrite


class Schedulable(Protocol):
    """A procedure as `exogpu.api` has it; this room does not know that one."""

    name: str
    made_in: str
    ir: Proc | None
    refusals: tuple[Diagnostic, ...]

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All that is wrong with it, but for hazards."""
        ...


P = TypeVar("P", bound=Schedulable)


def ir_of(procedure: Schedulable) -> Proc:
    """The IR of a procedure.  Raises ExoGpuError for one that is ill-formed."""
    if procedure.ir is None:
        raise ExoGpuError(procedure.refusals)
    return procedure.ir


def with_ir(procedure: P, ir: Proc) -> P:
    """A procedure of the same class with other IR, and what reading that finds wrong."""
    make: Callable[..., P] = type(procedure)
    return make(ir.name, ir, refusals(ir), procedure.made_in)


@dataclass(frozen=True, slots=True)
class Derivation:
    """One step of a chain: `procedure` is what `primitive` made of `parent`."""

    parent: Schedulable
    primitive: str
    arguments: tuple[str, ...]
    seconds: float
    forward: Callable[[Path], Path | None]
    edit: Rewrite
    """What was accepted: a certificate is made of it on demand."""


_derived: WeakKeyDictionary[Schedulable, Derivation] = WeakKeyDictionary()


def record(procedure: Schedulable, derivation: Derivation) -> None:
    """Note how a procedure was made."""
    _derived[procedure] = derivation


def derivation(procedure: Schedulable) -> Derivation | None:
    """How a procedure was made; None for one that was written."""
    return _derived.get(procedure)


def chain(procedure: Schedulable) -> Iterator[tuple[Schedulable, Derivation]]:
    """The derived procedures up to this one, the latest first."""
    while (step := derivation(procedure)) is not None:
        yield procedure, step
        procedure = step.parent


def are_equivalent(first: Schedulable, second: Schedulable) -> bool:
    """Whether both were derived from one procedure, or one from the other."""
    made = [{id(p): p for p in (one, *_parents(one))} for one in (first, second)]
    return bool(made[0].keys() & made[1].keys())


def _parents(procedure: Schedulable) -> Iterator[Schedulable]:
    return (step.parent for _, step in chain(procedure))


def history(procedure: Schedulable) -> str:
    """The chain as text, a line a step: primitive, arguments, seconds."""
    steps = list(chain(procedure))
    start = steps[-1][1].parent if steps else procedure
    lines = [f"{start.name}"]
    for _, step in reversed(steps):
        lines.append(f"  {step.primitive}({', '.join(step.arguments)})  {step.seconds:.2f} s")
    return "\n".join(lines)


def text(procedure: Schedulable) -> str:
    """The procedure as source text."""
    return print_proc(ir_of(procedure))
