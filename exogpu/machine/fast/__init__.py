"""The fast interpreter of the abstract machine; it agrees with `machine.literal` on every program.

records, lifts    visibility records as interned families; what syncs do to them
cells             variables divided into cells, cells grouped into classes of one state
arrivals, phase   counts, DEADLOCK, BARRIER, PHASE
required          whether windows lie inside, and what else is required holds
control, layout   what is read off the program text before the run
steps, accesses, syncs   operations compiled to Python functions
signature, loops  skipping iterations, and tasks, whose effect is known
sweeps            loops of accesses alone, executed by cell; sweep_cells finds these
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Final

from exogpu.amir.nodes import Loop, Program
from exogpu.amir.slot_privacy import check_private_slots
from exogpu.amir.walk import begins_tasks, operations
from exogpu.analysis.slots import UncountedError
from exogpu.ir.types import Sym
from exogpu.machine import literal
from exogpu.machine.concrete_program import without_slots
from exogpu.machine.fast.affine_code import LoadedArray
from exogpu.machine.fast.configuration import (
    TICK,
    Context,
    Found,
    Keep,
    Machine,
    Progress,
    Step,
    WorkLimitError,
)
from exogpu.machine.fast.events import count_tasks
from exogpu.machine.fast.layout import Unsupported, survey
from exogpu.machine.fast.locate import with_record
from exogpu.machine.fast.records import Tables
from exogpu.machine.fast.requirements_at_sizes import surely_holds
from exogpu.machine.fast.signature import Parts
from exogpu.machine.fast.steps import block_steps
from exogpu.machine.index_contents import Contents, loads, sample_contents, with_contents
from exogpu.machine.observer import First, Observer, Pairs, Violation

__all__ = ["Keep", "Outcome", "Progress", "WorkLimitError", "located", "run"]

LOCATED: Final = 8
"""Violations of which the record's iteration is looked for."""


LITERAL: Final = 1000
"""Work of one operation of the literal machine, where it has to take over."""


KEEPING: Final[Mapping[Keep, type[Observer]]] = {
    Keep.FIRST: First,
    Keep.PAIRS: Pairs,
    Keep.ALL: Observer,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The violations found, none if the program is safe, and the dynamic operations that the
    check stands for, skipped ones included."""

    violations: tuple[Violation, ...]
    operations: int
    work: int = 0
    """The work of the run: operations executed, and states that syncs changed."""


def run(
    program: Program,
    sizes: Mapping[str, int],
    *,
    collect: bool = False,
    keep: Keep = Keep.FIRST,
    progress: Callable[[Progress], None] | None = None,
    skip: bool = True,
    locate: bool = True,
    most: int | None = None,
) -> Outcome:
    """Executes the program at the given sizes.

    `keep` says how much it finds; `collect` is short for `Keep.ALL`.  `progress` is called
    now and then; an exception that it raises ends the run.  Without `skip` every operation is
    executed; with `locate` the instance of the record is looked for, of the first few violations.
    Where values are loaded, several contents are tried, up to the first with a violation.
    Raises PrivateSlotError where a slot has no meaning, and WorkLimitError after `most` work: the
    same on every machine, however busy it is.
    """
    check_private_slots(program)
    sigma = {parameter.name: sizes[parameter.name.name] for parameter in program.params}
    if collect:
        keep = Keep.ALL
    options = _Options(keep, skip, locate, progress, most)
    if not loads(program):
        return _run_at(program, sigma, options)
    compiled = None if options.keep is Keep.ALL else _for_contents(program, sigma, options)
    count = work = 0
    for contents in sample_contents(program, sizes):
        found = None if compiled is None else _with_contents(compiled, sigma, contents)
        if found is None:
            compiled = None
            left = None if most is None else most - work
            at = with_contents(program, sizes, contents)
            found = _run_at(at, sigma, replace(options, most=left))
        count, work = count + found.operations, work + found.work
        if found.violations:
            named = tuple(contents.items())
            violations = tuple(replace(v, contents=named) for v in found.violations)
            return Outcome(violations, count, work)
    return Outcome((), count, work)


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of `run`."""

    keep: Keep
    skip: bool
    locate: bool
    progress: Callable[[Progress], None] | None
    most: int | None


def _run_at(program: Program, sigma: Mapping[Sym, int], options: _Options) -> Outcome:
    """Executes a program that loads no values, by the literal machine where it must."""
    try:
        return _run(without_slots(program, sigma), sigma, options)
    except (Unsupported, UncountedError):
        watch = _Watch(options.progress, options.most)
        sizes = {name.name: value for name, value in sigma.items()}
        violations = literal.run(program, sizes, KEEPING[options.keep](), watch=watch)
        return Outcome(violations, 0, watch.work)


class _Watch:
    """Tells the progress of the literal machine, of which only the operations are known, and ends
    it where it does too much work."""

    def __init__(self, progress: Callable[[Progress], None] | None, most: int | None) -> None:
        self._progress, self._most = progress, most
        self._last, self._operations = perf_counter(), 0

    @property
    def work(self) -> int:
        return LITERAL * self._operations

    def __call__(self) -> None:
        self._operations += 1
        if self._most is not None and self.work > self._most:
            raise WorkLimitError
        if self._progress is not None and perf_counter() - self._last > TICK:
            self._last = perf_counter()
            self._progress(Progress(self._operations, 0, 0))


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A program at sizes as steps of a machine."""

    program: Program
    machine: Machine
    steps: tuple[Step, ...]

    def run(self) -> tuple[Violation, ...]:
        """Executes the program from its beginning."""
        machine = self.machine
        machine.restart()
        machine.operations += len(self.program.body)
        try:
            for step in self.steps:
                step()
        except Found:
            pass
        return tuple(machine.observer.found)


def _compiled(program: Program, sigma: Mapping[Sym, int], options: _Options) -> _Compiled:
    tables = Tables()
    fine = options.keep is Keep.ALL
    layout = survey(program, sigma, tables, fine)
    tasks = count_tasks(program.body, sigma) if options.progress is not None else 0
    observer = KEEPING[options.keep]()
    machine = Machine(
        layout, tables, observer, fine, options.skip, options.progress, tasks, options.most
    )
    return _Compiled(program, machine, block_steps(Context(machine), program.body, (), Parts()))


def _run(program: Program, sigma: Mapping[Sym, int], options: _Options) -> Outcome:
    if not surely_holds(program, sigma, {}):
        raise Unsupported("a window may lie outside its variable")
    compiled = _compiled(program, sigma, options)
    found = compiled.run()
    fine = options.keep is Keep.ALL
    near = found[:LOCATED] if options.locate and (not fine or len(found) <= LOCATED) else ()
    sizes = {name.name: value for name, value in sigma.items()}
    known = [located(program, sizes, violation) for violation in near]
    machine = compiled.machine
    return Outcome((*known, *found[len(near) :]), machine.operations, machine.work)


# --- values from memory -------------------------------------------------------------------------


def _for_contents(
    program: Program, sigma: Mapping[Sym, int], options: _Options
) -> _Compiled | None:
    """Compiles the program for all contents of its arrays; None where these tell how many tasks
    there are."""
    for op in operations(program.body):
        if isinstance(op, Loop) and op.source is not None and begins_tasks(op.body):
            return None
    try:
        return _compiled(program, sigma, replace(options, keep=Keep.FIRST))
    except Unsupported:
        return None


def _with_contents(
    compiled: _Compiled, sigma: Mapping[Sym, int], contents: Contents
) -> Outcome | None:
    """Executes the program where its arrays have these contents; None where a violation may have
    to be told.  Effects of iterations are remembered from one execution to the next."""
    machine = compiled.machine
    scope = machine.layout.scope
    arrays = {name: LoadedArray(contents[name.name]) for name in scope.shapes}
    if not surely_holds(compiled.program, sigma, arrays):
        return None
    for name, array in arrays.items():
        machine.load(name, array)
    operations, work = machine.operations, machine.work
    try:
        if compiled.run():
            return None
    except Unsupported:
        return None
    return Outcome((), machine.operations - operations, machine.work - work)


def located(program: Program, sizes: Mapping[str, int], violation: Violation) -> Violation:
    """The violation with the instance of its record, if it can be told."""

    def again(piece: Program) -> tuple[Violation, ...]:
        return run(piece, sizes, keep=Keep.PAIRS, locate=False).violations

    sigma = {parameter.name: sizes[parameter.name.name] for parameter in program.params}
    try:
        program = with_contents(program, sizes, dict(violation.contents))
        program = without_slots(program, sigma)
    except UncountedError:
        return violation
    return with_record(program, sizes, violation, again)
