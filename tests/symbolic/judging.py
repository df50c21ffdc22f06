"""The prover's judgement of a mutant against the concrete machine's, at a grid of sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from exogpu.amir import nodes as amir
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Proof
from exogpu.ir.render import identifier
from exogpu.ir.walk import holds
from exogpu.machine import fast
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.prove import prove
from exogpu.symbolic.search.analysis import Findings, analyse
from exogpu.symbolic.search.dependences import Finding
from exogpu.symbolic.search.refute import Refutation, refute

Sizes = Mapping[str, int]
Pair = tuple[HazardKind, object, amir.Op, amir.Op | None]
"""Kind, variable, the operation that fails and the one that is not ordered before it."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the prover says of a program for all sizes, and where the machine says otherwise."""

    word: str
    """The kind of the hazard refuted at the smallest sizes, "safe" (proved) or "undecided"."""
    sizes: Sizes | None
    """The smallest failing sizes."""
    reason: str
    """Why undecided."""
    disagreements: tuple[str, ...]


BEYOND: Final = 3
"""Sizes after the smallest failing one at which the two are compared."""


def judge(program: amir.Program, grid: Sequence[Sizes]) -> Judgement:
    """Analyses the program, replays its refutation, and compares with the machine.

    Whether there is a violation is compared at every size of the grid; of a program that fails, at
    every size below its smallest failing one, those of the grid of a smaller sum, and a few beyond;
    at the smallest, also the pairs of operations at fault.
    """
    findings = analyse(program)
    found = refute(program, findings, lambda p, sizes: fast.run(p, sizes).violations)
    wrong: list[str] = []
    smallest = None
    if isinstance(found, Refutation):
        smallest = found.sizes
        upto = [*below(program, smallest)]
        upto += [
            sizes
            for sizes in grid
            if sizes not in upto and order(program, sizes) < order(program, smallest)
        ]
        beyond = [sizes for sizes in grid if order(program, sizes) > order(program, smallest)]
        grid = (*upto, *beyond[:BEYOND])
        mine, theirs = predicted(findings, smallest), observed(program, smallest)
        wrong += shown(smallest, "prover", mine - theirs)
        if not findings.undecided:
            wrong += shown(smallest, "machine", theirs - mine)
    elif found is not None:
        wrong.append(f"the refutation is not replayed: {found.reason}")
    for sizes in grid:
        unsafe = bool(fast.run(program, sizes).violations)
        claimed = bool(predicted(findings, sizes))
        if unsafe != claimed and not (unsafe and findings.undecided):
            wrong.append(f"{dict(sizes)}: only the {'machine' if unsafe else 'prover'} objects")
    if isinstance(found, Refutation):
        word, reason = found.violation.kind.value, ""
    elif findings.undecided:
        word, reason = "undecided", findings.undecided[0].reason
    else:
        proof = prove(findings)
        proved = isinstance(proof, Proof)
        word, reason = ("safe", "") if proved else ("undecided", proof.reason)
    return Judgement(word, smallest, reason, tuple(wrong))


def below(program: amir.Program, smallest: Sizes) -> Iterator[Sizes]:
    """Every size that a program admits and that is nowhere larger than these, but for these."""
    names = [p.name.name for p in program.params]
    for values in product(*(range(1, smallest[name] + 1) for name in names)):
        sizes = dict(zip(names, values, strict=True))
        sigma = {p.name: sizes[p.name.name] for p in program.params}
        if sizes != smallest and all(holds(p, sigma) for p in program.preconditions):
            yield sizes


def predicted(findings: Findings, sizes: Sizes) -> set[Pair]:
    return {
        pair(f.kind, f.variable.name, f.check.op, f.record.op if f.record else None)
        for f in findings.violations
        if not isl.is_empty(rel.fix_params(f.failing, values(f, sizes)))
    }


def values(finding: Finding, sizes: Sizes) -> dict[str, int]:
    return {identifier(name): sizes[name.name] for name in finding.frame.model.sizes}


def observed(program: amir.Program, sizes: Sizes) -> set[Pair]:
    found = fast.run(program, sizes, keep=fast.Keep.PAIRS).violations
    return {pair(v.kind, v.variable, v.check, v.record) for v in found}


def pair(kind: HazardKind, variable: object, check: amir.Op, record: amir.Op | None) -> Pair:
    """Of a late Arrive and of PHASE the machine names the last of several Awaits at fault, so that
    the record is not compared there."""
    several = kind in (HazardKind.DEADLOCK, HazardKind.PHASE)
    return kind, variable, check, None if several else record


def shown(sizes: Sizes, who: str, pairs: Iterable[Pair]) -> Iterator[str]:
    for kind, variable, check, record in pairs:
        first = f" against line {record.origin.span.line}" if record else ""
        line = check.origin.span.line
        yield f"{dict(sizes)}: only the {who} finds {kind.value} of {variable}, line {line}{first}"


# --- sizes ------------------------------------------------------------------------------------


def grid(trips: Mapping[str, Sequence[int]], **others: Sequence[int]) -> list[Sizes]:
    """Sizes that exercise a kernel: all trip counts with the least of the other sizes, and each
    other size in turn with the first and the last of the trip counts; by their sum."""
    ((name, counts),) = trips.items()
    least = {other: min(many) for other, many in others.items()}
    found = [least | {name: count} for count in counts]
    few = (counts[0], counts[-1])
    for other, many in others.items():
        found += [
            least | {other: value, name: count}
            for value, count in product(many, few)
            if value != least[other]
        ]
    return sorted(found, key=lambda sizes: sum(sizes.values()))


def order(program: amir.Program, sizes: Sizes) -> tuple[int, ...]:
    """By sum, then lexicographically: what "smallest" means."""
    return (sum(sizes.values()), *(sizes[p.name.name] for p in program.params))


GRIDS: Mapping[str, list[Sizes]] = {
    # 32 columns a trip, a ring of 4 slots: the fifth trip comes back to the first one.  A CTA has
    # 128 rows, a cluster's tile 256 x 256.
    "gemm_sm90_2x1_128x256": grid(
        {"cluster_K": (4, 36, 68, 100, 132, 160, 260)}, L=(1, 2), M=(1, 129, 257), N=(1, 257)
    ),
    "gemm_splitk_sm90_2x1_128x256": grid(
        {"cluster_K": (4, 36, 68, 100, 132, 160, 260)},
        M=(1, 257),
        N=(4, 260),
        K_split=(1, 2),
        L=(1,),
    ),
    # A tile has 64 x 64 elements, copied 32 rows at a time; 16 columns a trip, two slots.
    "gemm_sm80": grid({"K": (4, 20, 36, 68)}, M=(1, 65), N=(1, 33)),
    # A warp has 4 rows, a task 32; a trip has 32 columns, 4 a thread.
    "gemv": grid({"K": (4, 32, 68)}, M=(1, 5, 33)),
}
"""By kernel, with the trip counts around a turn of its ring; `[{}]` for one without sizes."""
