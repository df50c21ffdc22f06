"""Interface of procedures to scheduling, and the chain of derivations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary

from exogpu.diagnostics.derivation_context import step_callback
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError
from exogpu.ir.contracts import contract_text
from exogpu.ir.nodes import CallProc, For, Loaded, Proc, Slot, Stmt
from exogpu.ir.printer import print_proc
from exogpu.ir.walk import walk
from exogpu.schedule.argument_types import Schedulable
from exogpu.schedule.expression_parts import Where
from exogpu.schedule.reparse import refusals
from exogpu.schedule.rewrite import Path, Rewrite

P = TypeVar("P", bound=Schedulable)


def ir_of(procedure: Schedulable) -> Proc:
    """The IR of a procedure.  Raises ExoGpuError for what is none, or ill-formed."""
    if not hasattr(procedure, "ir"):
        message = f"a {type(procedure).__name__} is no procedure"
        raise ExoGpuError([Diagnostic("X991", message, NOWHERE, "give what @proc makes")])
    if procedure.ir is None:
        raise ExoGpuError(procedure.refusals)
    return procedure.ir


def without_slots(procedure: Schedulable) -> Proc:
    """The IR of a procedure that can be rewritten.  Raises ExoGpuError as `rewritable` does."""
    return rewritable(ir_of(procedure))


def rewritable(proc: Proc) -> Proc:
    """The procedure, which primitives know all of.

    Raises ExoGpuError (X994) for one that has slots: they count Arrives, which no primitive keeps
    an account of when it moves, copies or leaves out statements; and X995 for one that has values
    from memory or contracts.
    """
    for stmt in walk(proc.body):
        if said := _slot_in(proc, stmt):
            message = f"{said}: it is not rewritten"
            remedy = "schedule the procedure with a ring indexed by its loop, then write the slots"
            raise ExoGpuError([Diagnostic("X994", message, stmt.span, remedy)])
    if said := loaded_said(proc):
        remedy = "schedule the procedure with an index argument, then load it"
        raise ExoGpuError([Diagnostic("X995", f"{said}: it is not rewritten", proc.span, remedy)])
    return proc


def loaded_said(proc: Proc) -> str:
    """Explains that a procedure has a value from memory or a contract; empty for one that has
    none."""
    for stmt in walk(proc.body):
        if isinstance(stmt, For) and isinstance(stmt.mode, Loaded):
            array = stmt.mode.source.name.name
            return f"{proc.name} has {stmt.iterator.name}, a value from {array}"
        if isinstance(stmt, CallProc) and (said := loaded_said(stmt.proc)):
            return said
    for one in proc.contracts:
        return f"{proc.name} assumes {contract_text(one.kind, one.array.name, one.least)}"
    return ""


def slot_said(proc: Proc) -> str:
    """Explains that a procedure has a slot; empty for one that has none."""
    return next(filter(None, (_slot_in(proc, stmt) for stmt in walk(proc.body))), "")


def _slot_in(proc: Proc, stmt: Stmt) -> str:
    match stmt:
        case For(mode=Slot(barrier=barrier)):
            return f"{proc.name} has slot({barrier.name}), which counts Arrives"
        case CallProc():
            return slot_said(stmt.proc)
        case _:
            return ""


def with_ir(procedure: P, ir: Proc) -> P:
    """A procedure of the same class with other IR, and what reading that finds wrong, once it is
    asked for."""
    make: Callable[..., P] = type(procedure)
    return make(ir.name, ir, partial(refusals, ir), procedure.made_in)


@dataclass(frozen=True, slots=True)
class Derivation:
    """One step of a chain: `procedure` is what `primitive` made of `parent`."""

    parent: Schedulable
    primitive: str
    arguments: tuple[str, ...]
    seconds: float
    forward: Callable[[Path, Where | None], tuple[Path, Where | None] | None]
    """Where a statement of the parent is now, and a part of its value; None for what is gone."""
    edit: Rewrite
    """The accepted rewrite: a certificate is made of it on demand."""
    assumed: tuple[str, ...] = ()
    """Assumptions under which it was accepted: none of most steps."""
    within: tuple[str, ...] = ()
    """The higher steps that it is part of, with their arguments, the outermost first."""


_within: ContextVar[tuple[str, ...]] = ContextVar("higher steps", default=())


@contextmanager
def part_of_step(step: str) -> Iterator[None]:
    """Marks all steps derived meanwhile as part of a higher step."""
    token = _within.set((*_within.get(), step))
    try:
        yield
    finally:
        _within.reset(token)


def higher_steps() -> tuple[str, ...]:
    """The higher steps that are being taken, the outermost first."""
    return _within.get()


_derived: WeakKeyDictionary[Schedulable, Derivation] = WeakKeyDictionary()


def record(procedure: Schedulable, derivation: Derivation) -> None:
    """Note how a procedure was made."""
    _derived[procedure] = derivation
    if (tell := step_callback()) is not None:
        tell(procedure, derivation)


def derivation(procedure: Schedulable) -> Derivation | None:
    """Returns the derivation of a procedure; None for one that was written."""
    return _derived.get(procedure)


def chain(procedure: Schedulable) -> Iterator[tuple[Schedulable, Derivation]]:
    """The derived procedures up to this one, the latest first."""
    while (step := derivation(procedure)) is not None:
        yield procedure, step
        procedure = step.parent


def assumptions(procedure: Schedulable) -> tuple[str, ...]:
    """Returns the assumptions of all steps by which a procedure was derived."""
    found = (said for _, step in chain(procedure) for said in reversed(step.assumed))
    return tuple(reversed(dict.fromkeys(found)))


def are_equivalent(first: Schedulable, second: Schedulable) -> bool:
    """Tests whether both were derived from one procedure, or one from the other."""
    made = [{id(p): p for p in (one, *_parents(one))} for one in (first, second)]
    return bool(made[0].keys() & made[1].keys())


def _parents(procedure: Schedulable) -> Iterator[Schedulable]:
    return (step.parent for _, step in chain(procedure))


def history(procedure: Schedulable) -> str:
    """The chain as text, a line a step: primitive, arguments, seconds; then what it assumes."""
    steps = list(chain(procedure))
    start = steps[-1][1].parent if steps else procedure
    lines = [f"{start.name}"]
    for _, step in reversed(steps):
        lines.append(f"  {step.primitive}({', '.join(step.arguments)})  {step.seconds:.2f} s")
        lines.extend(f"    assuming that {said}" for said in step.assumed)
    return "\n".join(lines)


def text(procedure: Schedulable) -> str:
    """The procedure as source text."""
    return print_proc(ir_of(procedure))
