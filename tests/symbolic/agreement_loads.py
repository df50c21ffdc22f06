"""Comparison of the prover with the literal machine where values are loaded: whatever the contents.

What ISL finds of such values is more than there is, so that sets are not compared: for each
violation of the machine, with any of the contents that are tried, there has to be one of the
prover's, with the values that its operation loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from exogpu.amir import nodes as amir
from exogpu.diagnostics.hazards import HazardKind
from exogpu.machine import fast, literal
from exogpu.machine.index_contents import Contents, sample_contents, with_contents
from exogpu.machine.observer import Violation
from exogpu.symbolic.search.analysis import Findings
from exogpu.symbolic.search.dependences import instances
from exogpu.symbolic.search.refute import Refutation

Key = tuple[object, ...]
Sizes = Mapping[str, int]


@lru_cache(maxsize=32)
def machine_finds(
    program: amir.Program, sizes: tuple[tuple[str, int], ...]
) -> Sequence[tuple[Contents, frozenset[Violation]]]:
    """The literal machine's violations with each of the contents that are tried."""
    at = dict(sizes)
    return [
        (contents, frozenset(literal.run(program, at, contents=contents, collect=True)))
        for contents in sample_contents(program, at)
    ]


def both(
    program: amir.Program, findings: Findings, sizes: Sizes
) -> tuple[frozenset[Key], frozenset[Key]]:
    """What the prover finds, and what the machine does: with the iterators that both have, of the
    loops and of the loads around an operation that its meaning rests on."""
    around = dict(_iterators(program.body, ()))
    mine: set[Key] = set()
    read: dict[amir.Op, list[str]] = {}
    for finding in findings.violations:
        for one in instances(finding, sizes):
            at = [(name, value) for name, value in one.iteration if name in around[one.check]]
            read[one.check] = [name for name, _ in at]
            mine.add(_key(one.kind, one.variable, one.index, one.check, tuple(at), one.record))
    theirs: set[Key] = set()
    every = machine_finds(program, tuple(sizes.items()))
    for v in frozenset[Violation]().union(*(found for _, found in every)):
        values = dict(v.iteration)
        names = read.get(v.check, list(values))
        iteration = tuple((name, values[name]) for name in names)
        theirs.add(_key(v.kind, v.variable, v.index, v.check, iteration, v.record))
    return frozenset(mine), frozenset(theirs)


def _iterators(
    block: amir.Block, names: tuple[str, ...]
) -> Iterator[tuple[amir.Op, tuple[str, ...]]]:
    for op in block:
        yield op, names
        if isinstance(op, amir.Loop | amir.Guard):
            inner = (*names, op.iterator.name) if isinstance(op, amir.Loop) else names
            yield from _iterators(op.body, inner)


def _key(kind: HazardKind, variable: str, index: object, check: object, *rest: object) -> Key:
    """As `agreement.key`."""
    iteration, record = rest
    several = kind in (HazardKind.DEADLOCK, HazardKind.PHASE)
    return (kind, variable, index, check, iteration, None if several else record)


def machines_differ(program: amir.Program, sizes: Sizes) -> bool:
    """Whether, with some contents, the machines differ, or the literal one does where these are
    written into the program; or whether contents break a contract."""
    for number, (contents, found) in enumerate(machine_finds(program, tuple(sizes.items()))):
        here = with_contents(program, sizes, contents)
        if set(fast.run(here, sizes, collect=True).violations) != found:
            return True
        if not keeps(program, contents):
            return True
        if number < 2 and set(literal.run(here, sizes, collect=True)) != found:
            return True
    return False


def keeps(program: amir.Program, contents: Contents) -> bool:
    """Whether contents satisfy the contracts."""

    def satisfied(kind: str, elements: Iterable[int]) -> bool:
        several = list(elements)
        if kind == "monotone":
            return several == sorted(several)
        return len(set(several)) == len(several)

    return all(satisfied(one.kind, contents[one.array.name]) for one in program.contracts)


def unshared(program: amir.Program, found: Refutation) -> bool:
    """Whether the literal machine finds nothing with the contents that a refutation names."""
    contents = dict(found.violation.contents)
    if not keeps(program, contents):
        return True
    return not literal.run(program, found.sizes, contents=contents)
