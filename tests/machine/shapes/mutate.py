"""One mistake in a program: an operation dropped, repeated, weakened or shifted."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from exogpu.amir import nodes as amir
from exogpu.analysis.threadmap import ThreadAxis, ThreadMap
from exogpu.ir.nodes import Access, Add, Compare, Int, Interval, Point
from tests.machine.shapes.drawing import level, some


def mutate(random: Random, made: amir.Program) -> amir.Program:
    """The program with one operation dropped, repeated, weakened or shifted."""
    sites = [op for op in _walk(made.body) if not isinstance(op, _FIXED)]
    syncs = [op for op in sites if isinstance(op, amir.Fence | amir.Arrive | amir.Await)]
    site = random.choice(syncs if syncs and random.random() < 0.6 else sites)
    return replace(made, body=_rewrite(made.body, site, _mutant(random, site, made)))


_FIXED = (amir.Loop, amir.IncTaskID, amir.Alloc, amir.Release, amir.CheckBarrier)


def _walk(block: amir.Block) -> list[amir.Op]:
    found: list[amir.Op] = []
    for op in block:
        found.append(op)
        if isinstance(op, amir.Loop | amir.Guard):
            found += _walk(op.body)
    return found


def _rewrite(block: amir.Block, site: amir.Op, new: amir.Block) -> amir.Block:
    made: list[amir.Op] = []
    for op in block:
        if op is site:
            made += new
        elif isinstance(op, amir.Loop | amir.Guard):
            body = _rewrite(op.body, site, new)
            made.append(op if body == op.body else replace(op, body=body))
        else:
            made.append(op)
    return tuple(made)


def _mutant(random: Random, op: amir.Op, made: amir.Program) -> amir.Block:
    """What takes the place of the operation."""
    if random.random() < 0.25 and not isinstance(op, amir.Guard):
        return ()
    match op:
        case amir.Guard():
            assert isinstance(op.condition, Compare)
            shifted = Add(op.condition.right, Int(random.choice((-1, 1))))
            return (replace(op, condition=replace(op.condition, right=shifted)),)
        case amir.Await():
            kind = random.randrange(5)
            if kind == 0:
                n = op.n + random.choice((-1, 1))
                return (replace(op, n=n if (n < 0) == (op.n < 0) else op.n),)
            if kind == 1:
                return (replace(op, full=frozenset()),)
            if kind == 2:
                return (replace(op, full=some(random), temporal=some(random)),)
            if kind == 3:
                return (replace(op, barrier=_shifted(random, op.barrier)),)
            return (replace(op, origin=_others(random, op.origin)),)
        case amir.Arrive():
            kind = random.randrange(4)
            if kind == 0:
                return (replace(op, pre=some(random), transitive=random.random() < 0.5),)
            if kind == 1:
                return (replace(op, targets=(op.home,)),)
            if kind == 2:
                home = _shifted(random, op.home)
                return (replace(op, home=home, targets=(home, *op.targets[1:])),)
            return (replace(op, origin=_others(random, op.origin)),)
        case amir.Fence():
            kind = random.randrange(4)
            if kind == 0:
                return (replace(op, full=frozenset()),)
            if kind == 1:
                return (replace(op, pre=some(random), transitive=random.random() < 0.5),)
            if kind == 2:
                return (replace(op, full=some(random), temporal=some(random)),)
            return (replace(op, origin=_others(random, op.origin)),)
        case amir.Record():
            kind = random.randrange(4)
            if kind == 0:
                return (replace(op, access=_shifted(random, op.access)),)
            if kind == 1:
                return (replace(op, trailing=_other_tags(random, op.trailing, made)),)
            if kind == 2:
                return (replace(op, level=level(random), convergent=random.random() < 0.5),)
            return (replace(op, origin=_others(random, op.origin)),)
        case amir.Check():
            if random.random() < 0.5:
                return (replace(op, access=_shifted(random, op.access)),)
            return (replace(op, timelines=some(random), convergent=random.random() < 0.5),)
        case amir.Clear():
            return (replace(op, access=_shifted(random, op.access)),)
        case _:
            raise AssertionError(op)


def _other_tags(
    random: Random, trailing: amir.Trailing | None, made: amir.Program
) -> amir.Trailing | None:
    """No tags; or those of the home alone, or of two elements in the home's line, if it has two."""
    if trailing is None or random.random() < 0.4:
        return None
    if random.random() < 0.5:
        return replace(trailing, targets=(trailing.home,))
    dim = random.randrange(len(trailing.home.coords) or 1)
    (shape,) = (v.shape for v in made.variables if v.name == trailing.home.name)
    coords = tuple(
        Interval(Int(0), Int(1) if shape[at] == Int(1) else Int(2)) if at == dim else coord
        for at, coord in enumerate(trailing.home.coords)
    )
    return replace(trailing, targets=(replace(trailing.home, coords=coords),))


def _others(random: Random, origin: amir.Origin) -> amir.Origin:
    """Other threads."""
    if origin.threads is None:
        return origin
    axes = origin.threads.axes
    if random.random() < 0.5:
        moved = tuple(replace(a, offset=Add(a.offset, Int(1))) for a in axes)
        return replace(origin, threads=ThreadMap(moved))
    fewer = tuple(ThreadAxis(a.pitch, a.offset, max(a.extent - 1, 1)) for a in axes)
    return replace(origin, threads=ThreadMap(fewer))


def _shifted(random: Random, access: Access) -> Access:
    """Another element, inside the variable as before: only remainders are shifted."""
    coords = tuple(
        Point(replace(c.at, term=Add(c.at.term, Int(random.choice((1, 2))))))
        if isinstance(c, Point) and hasattr(c.at, "divisor")
        else c
        for c in access.coords
    )
    return replace(access, coords=coords)
