"""Reads the text of TTGIR as a procedure: the entrance of this room."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.hazards import HazardKind
from exogpu.importing import role_events
from exogpu.importing.balance_arrivals import balance_arrivals
from exogpu.importing.build_procedure import build_procedure
from exogpu.importing.cell_instructions import parts_of
from exogpu.importing.disjoint_tiles import assumed_tiles, collision
from exogpu.importing.event_statements import Plan
from exogpu.importing.initialised import refuse_unawaited
from exogpu.importing.mbarrier_rings import resolve_lags, steps, usage_of
from exogpu.importing.merge_roles import side_by_side
from exogpu.importing.mlir_text import Module, read_module, walk
from exogpu.importing.persistent_rings import circular_arrays, count_slots
from exogpu.importing.polynomial_values import (
    Atom,
    Condition,
    Floor,
    Toward,
    Variable,
    atom_value,
    compare,
    condition_atoms,
    integer_value,
)
from exogpu.importing.ptx_products import touched_accumulator
from exogpu.importing.ptx_skeleton import further_barriers, mismatches
from exogpu.importing.refusals import FaultyError, RefusedError, faulty, unsupported
from exogpu.importing.role_deadlock import Stuck, find_deadlock
from exogpu.importing.role_events import Kernel
from exogpu.importing.substitution import simplified
from exogpu.importing.translate_module import translate
from exogpu.importing.trip_counts import Size, Sized, in_sizes
from exogpu.importing.triton_tables import LOWERINGS, NEWEST, NEWEST_FIRST, Lowering
from exogpu.importing.value_rendering import value_text
from exogpu.ir.nodes import ImportSource, Proc


@dataclass(frozen=True, slots=True)
class Imported:
    """A kernel of others as a procedure, and what is said of it beside its verdict."""

    proc: Proc
    plan: Plan
    """All that the procedure was built from."""
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    sizes: tuple[Size, ...]
    """The trip counts that are sizes of the procedure."""
    ordered: bool
    """True if roles are read in an order that was guessed, and no execution was found in which they
    wait for each other for ever."""
    flagged: tuple[Condition, ...]
    """The conditions that any values are taken for."""
    arguments: frozenset[str]
    """The names of the kernel's arguments."""

    def specialisations(self) -> Iterator[dict[str, int]]:
        """Yields numbers for the arguments that conditions depend on, which may make the conditions
        known: a few of the least with which loops that they bound run once, twice, three times."""
        atoms = [atom for one in self.flagged for atom in condition_atoms(one)]
        read = {atom.name for atom in atoms if isinstance(atom, Variable)} & self.arguments
        divisors = {_divisor(atom) for atom in atoms}
        for times in range(3) if read else ():
            yield dict.fromkeys(sorted(read), max(divisors) * times + 1)

    def hastened(self) -> Proc:
        """The procedure with more order than there is, in which refutations are found sooner."""
        plan = replace(self.plan, by_warps=True)
        proc, _ = build_procedure(plan)
        return replace(proc, imported=self.proc.imported)


def imported(
    text: str, version: str = "", ptx: str = "", given: Mapping[str, int] | None = None
) -> Imported:
    """A kernel from its TTGIR, after allocation and barriers, and the PTX that it was lowered to;
    some of its arguments may be given as numbers.

    Where no version of Triton is given, it is the newest whose lowering the PTX agrees with.
    Raises RefusedError for a kernel that is not read exactly, with the operation and its line, and
    for one whose PTX does not synchronise as its TTGIR says.
    """
    module = read_module(text)
    lowering = _agreeing(module, ptx, [_lowering(version)] if version else NEWEST_FIRST)
    sized = in_sizes(translate(module, lowering, given or {}))
    if sized.kernel.selected is not None and ptx and (touched := touched_accumulator(ptx)):
        raise RefusedError(
            "K111",
            f"PTX accesses an accumulator while a product may be under way: {touched}",
            "wait for the product before its accumulator is used",
            sized.kernel.selected,
        )
    facts = tuple(
        compare("<=", integer_value(one.least) - atom_value(one.variable))
        for one in sized.sizes
        if one.least
    )
    kernel = resolve_lags(sized.kernel, facts)
    items = simplified(_merged_items(kernel, sized.sizes), facts)
    runs = circular_arrays(items)
    labels = {name: one.label for name, one in kernel.barriers.items()}
    for array in runs:
        if kernel.barriers[array].scope:
            raise unsupported(
                f"the mbarriers {labels[array]} are a ring of an iteration that runs on within it",
                "let the ring begin anew in each loop, or initialise it once",
                kernel.barriers[array].span,
            )
    rings = {array: kernel.barriers[array].count for array in runs}
    items = count_slots(items, rings) if rings else items
    try:
        usage = usage_of(items, kernel.barriers, runs, kernel.memory.arrays)
    except RefusedError as error:
        raise _explain_refusal(kernel, sized.sizes, labels, error) from None
    items, unbalanced = balance_arrivals(items, usage)
    refuse_unawaited(items, kernel.barriers, unbalanced)
    plan = Plan(
        kernel.name,
        kernel.span,
        items,
        kernel.roles,
        kernel.memory,
        parts_of(items, kernel.roles),
        usage,
        kernel.accumulators,
        sized.sizes,
        _axes(module),
    )
    _refuse_collision(items, sized, module)
    digest = hashlib.sha256(f"{text}\0{ptx}".encode()).hexdigest()
    assumed = tuple(_assumed(sized, items, module, lowering if not ptx else None))
    if sized.kernel.selected is not None and not ptx:
        assumed = (*assumed, SELECTED)
    proc, flagged = build_procedure(plan)
    source = ImportSource(f"Triton {lowering.version}", digest, assumed)
    return Imported(
        replace(proc, imported=source),
        plan,
        assumed,
        (*_notes_of_counts(labels[array] for array in unbalanced), *_notes(sized.sizes)),
        sized.sizes,
        kernel.specialized and find_deadlock(kernel.roles, kernel.barriers, sized.sizes) is None,
        flagged,
        _arguments(module),
    )


def _divisor(atom: Atom) -> int:
    """Returns the number by which an atom divides; 1 if by none."""
    match atom:
        case Floor():
            return atom.divisor
        case Toward():
            return atom.divisor.constant or 1
        case _:
            return 1


SELECTED: Final = "accumulators change after the wait for the products that write them"


def with_barriers_of(ptx: str, text: str) -> str:
    """A kernel's TTGIR with the barriers that its PTX shows besides, where another Triton lowered
    it than placed its barriers."""
    module = read_module(text)
    lowering = _agreeing(module, ptx, NEWEST_FIRST)
    if lowering is NEWEST:
        return text
    lines = text.split("\n")
    for operation in sorted(further_barriers(module, ptx, lowering), key=lambda one: -one.line):
        lines.insert(operation.line - 1, f"ttg.barrier local loc({operation.location})")
    return "\n".join(lines)


def _agreeing(module: Module, ptx: str, lowerings: Sequence[Lowering]) -> Lowering:
    """The first lowering that PTX agrees with; without PTX, the first.

    Raises RefusedError (K111) where it agrees with none, with what the first one expects.
    """
    if not ptx:
        return lowerings[0]
    for lowering in lowerings:
        if not any(mismatches(module, ptx, lowering)):
            return lowering
    wrong = next(mismatches(module, ptx, lowerings[0]))
    raise RefusedError("K111", str(wrong), "exogpu's table of lowerings needs another row")


def _lowering(version: str) -> Lowering:
    found = LOWERINGS.get(".".join(version.split(".")[:2]))
    if found is None:
        raise unsupported(
            f"the lowering of Triton {version} is not known",
            f"use Triton {' or '.join(LOWERINGS)}",
            Span("", 0, 0, 0, 0),
        )
    return found


def _merged_items(kernel: Kernel, sizes: Sequence[Size]) -> tuple[role_events.Item, ...]:
    """The roles' items as one sequence.

    Raises FaultyError where the roles wait for each other for ever, at some trip counts.
    """
    if not kernel.specialized:
        (role,) = kernel.roles
        return role.items
    labels = {name: one.label for name, one in kernel.barriers.items()}
    meet = role_events.Step(role_events.MeetAll(), kernel.span, "")
    try:
        inside = side_by_side(kernel.roles, labels, kernel.span)
    except RefusedError as error:
        raise _explain_refusal(kernel, sizes, labels, error) from None
    return (*kernel.before, meet, *inside, replace(meet), *kernel.after)


def _explain_refusal(
    kernel: Kernel, sizes: Sequence[Size], labels: Mapping[str, str], error: RefusedError
) -> RefusedError:
    """A deadlock where there is one, else what was refused."""
    found = find_deadlock(kernel.roles, kernel.barriers, sizes)
    return error if found is None else _deadlock(found, labels)


def _deadlock(found: Stuck, labels: Mapping[str, str]) -> FaultyError:
    """Makes the fault for roles that wait for each other for ever."""
    waits = []
    for role, step in found.at.items():
        assert isinstance(step.event, role_events.Wait)
        label = labels[step.event.barrier.array]
        waits.append((step.span, f"{role} waits at line {step.span.line} for {label}", label))
    (first, _, label), *others = waits
    said = "; ".join(text for _, text, _ in waits)
    second = others[0][0] if others else first
    message = f"no role goes on: {said}"
    one = first if others else None
    return faulty(HazardKind.DEADLOCK, label, message, one, second, found.sizes)


def _refuse_collision(items: Sequence[role_events.Item], sized: Sized, module: Module) -> None:
    """Raises FaultyError where programs, or iterations, store overlapping tiles in any case."""
    found = collision(
        items,
        sized.sizes,
        _arguments(module),
        _axes_read(module),
        ordered=any(
            one.name == "ttng.async_tma_store_wait" and "read_only" not in one.attributes
            for one in walk((module.function,))
        ),
    )
    if found is not None:
        assert isinstance(found.first.event, role_events.TmaStore)
        tensor = found.first.event.tensor.strip("%")
        message = f"{found.who} store overlapping tiles of {tensor}, whatever the arguments are"
        help = "let each program, and each iteration, store a tile of its own"
        first, second = found.first.span, found.second.span
        raise faulty(HazardKind.WAW, tensor, message, first, second, help=help)


def _arguments(module: Module) -> frozenset[str]:
    return frozenset(one.strip("%") for one in module.function.regions[0].arguments)


def _axes_read(module: Module) -> tuple[int, ...]:
    """The axes of the grid that the kernel reads."""
    found = {
        "xyz".index(one.text.strip()[0])
        for one in walk((module.function,))
        if one.name == "tt.get_program_id" and one.text.strip()[:1] in ("x", "y", "z")
    }
    return tuple(sorted(found))


def _axes(module: Module) -> tuple[int, ...]:
    """The axes of the grid of the procedure: those that the kernel reads; at least the first."""
    return _axes_read(module) or (0,)


def _assumed(
    sized: Sized, items: Sequence[role_events.Item], module: Module, unseen: Lowering | None
) -> list[str]:
    """Lists the unchecked assumptions of a verdict; the lowering, too, if no PTX was compared."""
    found = [] if unseen is None else [f"the lowering of Triton {unseen.version}"]
    found += ["integers of 32 bits do not wrap"]
    found += ["global memory that the kernel reads is not written while it runs"]
    axes = _axes_read(module)
    found += assumed_tiles(items, sized.sizes, _arguments(module), axes)
    names = {one.name for one in walk((module.function,))}
    if not axes and names & {"tt.store", "ttng.async_tma_copy_local_to_global"}:
        found.append("one program is launched, since the kernel reads no program id")
    if "tt.store" in names:
        found += ["programs store different elements through pointers"] if axes else []
        found.append("a program stores each element through pointers once")
    found += [f"{value_text(value)} >= 0" for value in sized.assumed]
    found += [
        f"{size.variable.name} >= {size.least}, the trip count at line {size.trips.span.line}"
        for size in sized.sizes
        if size.least > 0
    ]
    events = [one.event for one in steps(items)]
    last = next(
        (
            e
            for e in reversed(events)
            if isinstance(e, role_events.AsyncCommit | role_events.AsyncWait)
        ),
        None,
    )
    if isinstance(last, role_events.AsyncCommit):
        found.append("copies by cp.async that are under way at a program's end end with it")
    return found


def _notes_of_counts(labels: Iterable[str]) -> Iterator[str]:
    for label in labels:
        yield f"{label} has more arrivals than waits, or fewer, at the end"


def _notes(sizes: Sequence[Size]) -> list[str]:
    return [
        f"{size.variable.name} is the {'branch' if size.greatest else 'trip count'} at line "
        f"{size.trips.span.line}: {re.sub(r'%', '', value_text(size.trips.value))}"
        for size in sizes
    ]
