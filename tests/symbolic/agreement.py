"""Comparison of the prover with the literal machine: sets of violations, not verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random

from campaigns.reach import generate as reach
from exogpu.amir import nodes as amir
from exogpu.api import Procedure
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.nodes import Access, Compare, CVar, Int, Point
from exogpu.ir.types import Sym
from exogpu.ir.walk import evaluate, holds
from exogpu.machine import fast, literal
from exogpu.machine.concrete_program import (
    Choice,
    assign_tasks,
    at_random,
    backwards,
    dealt,
    one_task_each,
    round_robin,
)
from exogpu.machine.index_contents import loads
from exogpu.machine.observer import Violation
from exogpu.symbolic.search.analysis import Findings, analyse
from exogpu.symbolic.search.dependences import Instance, instances
from exogpu.symbolic.search.refute import Refutation, refute
from exogpu.symbolic.search.weakest_condition import condition_excluding, unsafe_sizes
from tests.machine import generate, host_runs
from tests.machine.leaving import misjudged
from tests.machine.shapes import sources
from tests.machine.shapes.host import host
from tests.machine.shapes.loads import loads as with_loads
from tests.machine.shapes.windows import windows
from tests.symbolic import agreement_loads, chains
from tests.symbolic.kernel_mutants import accesses

Key = tuple[object, ...]
Sizes = Mapping[str, int]

CHAINS = {"chains": chains.program, "fences": chains.fences, "proxies": chains.proxies}
SHAPES = (*CHAINS, *generate.SHAPES)
"""Shapes of AMIR whose sets are compared, or whose verdicts are, of slots; those of
`campaigns/reach` are in source form, and of `loads` the contents are tried besides."""
RUNNING = ("resident", "slots", "relays", "unequal")
"""Rings that run on from task to task, or from one iteration to the next."""
TASKS = ("I", "M")
"""Sizes that count tasks."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The violations at some sizes, of the prover and of the machine."""

    mine: frozenset[Key]
    theirs: frozenset[Key]
    excused: bool
    """Whether the prover says that it could not decide everything: then it may find fewer."""
    by_half: bool
    """Whether slots or values from memory are compared, of which it predicts more pairs than there
    are, but no fewer."""
    by_step: bool = False
    """Whether a ring is taken out of its tasks: of what happens in a step the prover says not in
    which, and what two steps of a task have to do with each other it takes for a LEAK."""

    @property
    def invented(self) -> frozenset[Key]:
        """What only the prover finds."""
        return frozenset() if self.by_half else self.mine - self.theirs

    @property
    def missed(self) -> frozenset[Key]:
        """What only the machine finds, and the prover does not excuse."""
        if self.excused:
            return frozenset()
        if self.by_step:
            mine = {_without_step(key) for key in self.mine}
            return frozenset(key for key in self.theirs if _without_step(key) not in mine)
        return self.theirs - self.mine

    @property
    def kinds(self) -> set[HazardKind]:
        """Those of the machine's violations."""
        return {kind for kind, *_ in self.theirs if isinstance(kind, HazardKind)}

    @property
    def agree(self) -> bool:
        return not self.invented and not self.missed


def key(found: Violation | Instance) -> Key:
    """What must agree.  Of a late Arrive and of PHASE the machine names the last of several
    Awaits at fault, so that the record is not compared there."""
    several = found.kind in (HazardKind.DEADLOCK, HazardKind.PHASE)
    record = None if several else found.record
    return (found.kind, found.variable, found.index, found.check, found.iteration, record)


def generated(shape: str, seed: int) -> amir.Program:
    """A program of one of the generators' shapes."""
    random = Random(seed)
    if shape in CHAINS:
        return CHAINS[shape](random)
    if shape in reach.SHAPES:
        return reach.amir(shape, seed)
    if shape == "loads":
        return with_loads(random, random.choice((Policy.PTX, Policy.PAPER)))
    if shape == "host":
        return on_the_host(seed).amir((Policy.PTX, Policy.PAPER)[seed % 2])
    return generate.program(random, shape).program


def small_sizes(shape: str, program: amir.Program) -> list[Sizes]:
    """The sizes at which a generated program is compared: from 0 on, past every ring's depth."""
    if not program.params:
        return [{}]
    if shape in reach.SHAPES:
        names = [p.name.name for p in program.params]
        found = [{name: at[name] for name in names} for at in reach.SHAPES[shape].sizes]
        return [at for number, at in enumerate(found) if at not in found[:number]]
    if shape == "loads":
        pairs = ((0, 1), (1, 0), (1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3))
        return [{"G": g, "K": k} for g, k in pairs]
    if shape == "multicast":
        return [{"K": k} for k in (0, 1, 2, 3, 5)]
    if shape == "windows":
        return [{"K": k} for k in range(6)]
    if shape == "host":
        return [{"K": k} for k in range(4)]
    if shape == "casts":
        return [{"I": i, "K": k} for i in range(4) for k in range(4)]
    if shape in RUNNING:
        return [{"I": i, "K": k} for i in range(4) for k in (0, 1, 2, 3, 5)]
    if shape == "nests":
        return [{"I": i, "K": k} for i in range(6) for k in range(6)]
    # Without tasks, generated code after them uses variables that no task has allocated; and of
    # `tiles` the size counts whole kernels.
    first, last = {"tasked": (1, 7), "tiles": (0, 3)}.get(shape, (0, 7))
    beyond = (13,) if shape == "ring" else ()
    return [{"K": k} for k in (*range(first, last + 1), *beyond)]


def admitting_zero(program: amir.Program) -> amir.Program:
    """The program with every size allowed to be 0."""
    least = tuple(Compare(">=", CVar(p.name), Int(0)) for p in program.params)
    return replace(program, preconditions=(*program.preconditions, *least))


def machine_set(program: amir.Program, sizes: Sizes) -> set[Key]:
    return {key(v) for v in literal.run(program, sizes, collect=True)}


def prover_set(findings: Findings, sizes: Sizes) -> set[Key]:
    return {key(i) for found in findings.violations for i in instances(found, sizes)}


def compared(program: amir.Program, findings: Findings, sizes: Sizes) -> Comparison:
    excused = bool(findings.undecided)
    if loads(program):
        mine, theirs = agreement_loads.both(program, findings, sizes)
        return Comparison(mine, theirs, excused, True, takes_out(findings))
    by_step = takes_out(findings)
    return Comparison(
        frozenset(prover_set(findings, sizes)),
        frozenset(machine_set(program, sizes)),
        excused,
        by_step or by_slot(program.body),
        by_step,
    )


def takes_out(findings: Findings) -> bool:
    """Tests whether a ring is taken out of its tasks."""
    evidence = findings.evidence
    residences = () if evidence is None else evidence.model.by_position.residences
    return any(one.ring is not None for one in residences)


def _without_step(key: Key) -> Key:
    """The kind, variable and operation of a violation, a LEAK as RAW."""
    kind, variable, _, check, *_ = key
    return HazardKind.RAW if kind is HazardKind.LEAK else kind, variable, check


def machines_differ(program: amir.Program, sizes: Sizes, theirs: frozenset[Key]) -> bool:
    """Whether the fast machine finds other violations than the literal one."""
    if loads(program):
        return agreement_loads.machines_differ(program, sizes)
    found = fast.run(program, sizes, collect=True).violations
    return {key(v) for v in found} != set(theirs)


def by_half(program: amir.Program) -> bool:
    """Whether the prover predicts more than happens: of slots, and of values from memory."""
    return by_slot(program.body) or loads(program)


def by_slot(block: amir.Block) -> bool:
    """Whether some operation of a block binds a slot."""
    return any(
        isinstance(op, amir.Loop | amir.Guard)
        and (by_slot(op.body) or (isinstance(op, amir.Loop) and op.slot is not None))
        for op in block
    )


def refuted_wrongly(program: amir.Program, findings: Findings) -> bool:
    """Whether what is found is refuted for all sizes, and the literal machine does not share it."""
    found = refute(program, findings, lambda made, at: fast.run(made, at).violations)
    if isinstance(found, Refutation) and loads(program):
        return agreement_loads.unshared(program, found)
    return isinstance(found, Refutation) and not literal.run(program, found.sizes)


def choices_wrong(
    program: amir.Program, sizes: Sizes, seed: int, safe: bool, choices: int = 5
) -> bool:
    """Whether, of a program in which memory resides, some choice of clusters for its tasks violates
    what is found to be safe, or the fast machine finds other violations there."""
    every = (at_random(seed), round_robin(2), one_task_each, backwards, at_random(seed + 1))
    for choice in every[:choices]:
        chosen = assign_tasks(program, sizes, choice)
        found = machine_set(chosen, sizes)
        quick = fast.run(chosen, sizes, collect=True).violations
        if {key(v) for v in quick} != found or (safe and found):
            return True
        if loops_differ(program, sizes, choice, bool(found), quick):
            return True
    return False


def loops_differ(
    program: amir.Program,
    sizes: Sizes,
    choice: Choice,
    fails: bool,
    expected: tuple[Violation, ...],
) -> bool:
    """Whether the program with its clusters and tasks as loops does otherwise than written out,
    with all operations executed, or with those skipped whose effect is known."""
    looped = dealt(program, sizes, choice)
    every = fast.run(looped, sizes, collect=True).violations
    first = fast.run(looped, sizes, locate=False).violations
    return of_task(every) != of_task(expected) or bool(first) != fails


def of_task(violations: tuple[Violation, ...]) -> Counter[tuple[object, ...]]:
    """The violations without the values of iterators, of which loops over clusters have others."""
    return Counter((*key(v)[:4], key(v)[5], v.task) for v in violations)


def source(seed: int) -> sources.Sources:
    """The texts of a program of windows."""
    return windows(Random(seed))


def sources_wrong(seed: int, sizes: Iterable[Sizes]) -> list[Sizes]:
    """Of a program of windows, the sizes at which its bounds are misjudged, or at which it touches
    other elements than the same program without windows and calls."""
    written = source(seed)
    procedure, direct = sources.procedure(written.windows), sources.procedure(written.direct)
    assert procedure.ir is not None
    wrong = misjudged(procedure.ir, sizes)
    with_windows, without_windows = procedure.amir(), direct.amir()
    return wrong + [at for at in sizes if touched(with_windows, at) != touched(without_windows, at)]


def on_the_host(seed: int) -> Procedure:
    """A program whose CPU part has memory of its own."""
    return sources.procedure(host(Random(seed)))


def depends_on_the_stream(seed: int, sizes: Sizes, found: Comparison) -> bool:
    """Tests whether a program on the host computes something else if the stream copies late, though
    nothing is wrong with it but reads of what nobody wrote."""
    safe = found.kinds <= {HazardKind.UNINIT}
    return safe and host_runs.depends_on_the_stream(on_the_host(seed), sizes["K"])


def touched(program: amir.Program, sizes: Sizes) -> list[Key]:
    """What runs, and on which coordinates; what inlining asks for besides is not compared."""
    values = {p.name: sizes[p.name.name] for p in program.params}
    return list(_touched(program.body, values))


def _touched(block: amir.Block, values: Mapping[Sym, int]) -> Iterator[Key]:
    for op in block:
        if isinstance(op, amir.Require):
            continue
        yield type(op), tuple((a.name.name, _coordinates(a, values)) for a in accesses(op))
        if isinstance(op, amir.Loop):
            for value in range(evaluate(op.lo, values), evaluate(op.hi, values)):
                yield from _touched(op.body, {**values, op.iterator: value})
        elif isinstance(op, amir.Guard) and holds(op.condition, values):
            yield from _touched(op.body, values)


def _coordinates(access: Access, values: Mapping[Sym, int]) -> Key:
    return tuple(
        evaluate(c.at, values)
        if isinstance(c, Point)
        else (evaluate(c.lo, values), evaluate(c.hi, values))
        for c in access.coords
    )


def shown(keys: Iterable[Key]) -> list[str]:
    return sorted(
        f"{k[0]} {k[1]}{list(k[2])} line {k[3].origin.span.line} at {k[4]} "
        f"record {k[5] and k[5].origin.span.line}"
        for k in keys
    )


def check(program: amir.Program, sizes: Iterable[Sizes]) -> Findings:
    """Asserts agreement at each of the sizes."""
    findings = analyse(program)
    for at in sizes:
        found = compared(program, findings, at)
        assert (shown(found.invented), shown(found.missed)) == ([], []), at
    return findings


def safe_condition(program: amir.Program, findings: Findings) -> str | None:
    """What sizes have to satisfy for nothing to be violated: the empty text if nothing is, None if
    every size has a violation."""
    unsafe = unsafe_sizes(findings)
    if unsafe is None:
        return ""
    found = condition_excluding(program, unsafe)
    return None if found is None else str(found)
