"""Formulas about instances of operations, made from the AMIR.

An instance is a site with an expression for each iterator around it.  What is said of instances
is said in the IR's own expressions, so that it can be printed, handed to a solver and evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from exogpu.amir.nodes import Loop
from exogpu.analysis.threadmap import ThreadMap
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Add,
    And,
    BExpr,
    CExpr,
    Compare,
    CVar,
    FloorDiv,
    Int,
    Mul,
    Not,
    Or,
    Point,
    Sub,
    Truth,
)
from exogpu.ir.types import Policy
from exogpu.ir.walk import control_variables, holds, substitute, substitute_bool
from exogpu.machine.literal_records import own_arrival
from exogpu.symbolic.placed import Placed
from exogpu.symbolic.sites import Site, is_position, of_tasks, one_cluster

TRUE, FALSE = Truth(True), Truth(False)


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """One execution of an operation."""

    site: Site
    values: Mapping[Sym, CExpr]
    """Of every iterator around it."""


# --- connectives --------------------------------------------------------------------------------


def every(terms: Iterable[BExpr]) -> BExpr:
    """The conjunction."""
    found: list[BExpr] = []
    for term in terms:
        folded = _folded(term)
        if isinstance(folded, Truth):
            if not folded.value:
                return FALSE
        else:
            found.append(folded)
    return reduce(And, found) if found else TRUE


def some(terms: Iterable[BExpr]) -> BExpr:
    """The disjunction."""
    found: list[BExpr] = []
    for term in terms:
        folded = _folded(term)
        if isinstance(folded, Truth):
            if folded.value:
                return TRUE
        else:
            found.append(folded)
    return reduce(Or, found) if found else FALSE


def opposite(term: BExpr) -> BExpr:
    """The negation."""
    return Truth(not term.value) if isinstance(term, Truth) else Not(term)


def _folded(term: BExpr) -> BExpr:
    if isinstance(term, Compare) and type(term.left) is type(term.right):
        if isinstance(term.left, Int):
            return Truth(holds(term, {}))
        if term.left == term.right:
            return Truth(term.op in ("==", "<=", ">="))
    return term


def equal(left: CExpr, right: CExpr) -> BExpr:
    return Compare("==", left, right)


def less(left: CExpr, right: CExpr) -> BExpr:
    return Compare("<", left, right)


def at_most(left: CExpr, right: CExpr) -> BExpr:
    return Compare("<=", left, right)


def received(policy: Policy, n: int, rank: CExpr, bound: CExpr) -> BExpr:
    """States that an Await with skip count `n` and this Max receives a tag of this rank
    (`machine.literal_records.receives`)."""
    return equal(rank, bound) if own_arrival(policy, n) else at_most(rank, bound)


def plus(left: CExpr, constant: int) -> CExpr:
    """The sum with a constant."""
    if isinstance(left, Int):
        return Int(left.value + constant)
    if constant == 0:
        return left
    return Add(left, Int(constant)) if constant > 0 else Sub(left, Int(-constant))


# --- instances ----------------------------------------------------------------------------------


def exists(instance: Instance, but: Loop | None = None) -> BExpr:
    """It is executed: its iterators lie within the bounds, `but` for those of one loop, and its
    guards hold."""
    site, values = instance.site, instance.values
    terms: list[BExpr] = []
    for loop in site.loops:
        if loop is but:
            continue
        value = values[loop.iterator]
        terms.append(at_most(substitute(loop.lo, values), value))
        terms.append(less(value, substitute(loop.hi, values)))
    terms += (substitute_bool(condition, values) for _, condition in site.guards)
    return every(terms)


def bearing_on(site: Site, read: Iterable[Sym]) -> set[Sym]:
    """These variables, and those that bounds and guards of a site compare them with."""
    wanted = set(read)
    inside = {loop.iterator: (loop.lo, loop.hi) for loop in site.loops}
    guards = [control_variables(condition) for _, condition in site.guards]
    while True:
        found = {name for of in wanted & inside.keys() for name in _read(*inside[of])}
        for variables in guards:
            found |= variables if variables & wanted & inside.keys() else set()
        if found <= wanted:
            return wanted
        wanted |= found


def known_of(instance: Instance, read: Iterable[Sym]) -> BExpr:
    """Returns the part of `exists` that concerns these iterators, and others as far as they bear on
    them.

    What is refuted without the rest of it is refuted with it.
    """
    site, values, terms = instance.site, instance.values, list[BExpr]()
    wanted, inside = bearing_on(site, read), {*site.iterators}
    for loop in site.loops:
        if loop.iterator in wanted:
            value = values[loop.iterator]
            terms.append(at_most(substitute(loop.lo, values), value))
            terms.append(less(value, substitute(loop.hi, values)))
    for _, condition in site.guards:
        variables = control_variables(condition)
        if variables & wanted or not variables & inside:
            terms.append(substitute_bool(condition, values))
    return every(terms)


def _read(*expressions: CExpr) -> set[Sym]:
    return {name for one in expressions for name in control_variables(one)}


def threads_read(site: Site) -> set[Sym]:
    """The iterators that tell the threads of a site's instances."""
    threads = site.op.origin.threads
    return set() if threads is None else _read(*(axis.offset for axis in threads.axes))


def before(first: Instance, second: Instance) -> BExpr:
    """The first comes earlier in the sequential order: some common loop is in an earlier
    iteration, the ones around it in the same; or all are in the same, and the first stands
    above.

    Where memory resides (decision `resident-memory`) one task stands at each position: the
    iterators of tasks agree at one position, and do not at two.  The binding of a slot has one
    iteration (28), and so has that of a value from memory (32).
    """
    equals: list[BExpr] = []
    orders: list[BExpr] = []
    common = 0
    tasks = [t.iterator for t in of_tasks(first.site) if t in of_tasks(second.site)]
    one_task = agree(first, second, tasks) if tasks else TRUE
    for one, other in zip(first.site.loops, second.site.loops, strict=False):
        if one is not other:
            break
        left, right = first.values[one.iterator], second.values[one.iterator]
        at_position = bool(tasks) and is_position(one, first.site)
        if one.iterator not in tasks and one.slot is None and one.source is None:
            apart = [opposite(one_task)] if at_position else []
            orders.append(every([*equals, less(left, right), *apart]))
        equals.append(equal(left, right))
        equals += [one_task] if at_position else []
        common += 1
    if first.site.path[common] < second.site.path[common]:
        orders.append(every(equals))
    return some(orders)


def agree(first: Instance, second: Instance, iterators: Iterable[Sym]) -> BExpr:
    """The instances have the same values of the iterators."""
    return every(equal(first.values[name], second.values[name]) for name in iterators)


def same_allocation(placed: Placed, first: Instance, second: Instance, name: Sym) -> BExpr:
    """The instances use one allocation of a variable."""
    scope = placed.scope(name, first.site.op.origin.span)
    return agree(first, second, (loop.iterator for loop in scope))


def within_task(first: Instance, second: Instance) -> BExpr:
    """Two instances of a launch in which memory resides belong to one task, or to two executions
    of the launch."""
    assert first.site.residence is not None
    depth = first.site.residence.depth
    around, position = first.site.iterators[:depth], first.site.iterators[depth : depth + 1]
    others = [opposite(agree(first, second, around))] if around else []
    return some([*others, agree(first, second, position)])


def everyone(site: Site) -> bool:
    """Tests whether the site stands at CPU scope: every thread of every task."""
    return site.op.origin.threads is None


def same_task(placed: Placed, first: Instance, second: Instance) -> BExpr:
    """The instances belong to one task; a site at CPU scope shares every task (decision
    `figures-read`). Where memory resides, to one cluster: its threads execute one task after
    another (27).

    Outside of tasks the machine's task is the last one that ran: two sites there agree surely
    only where none has begun.
    """
    one, other = first.site, second.site
    if everyone(one) or everyone(other):
        return TRUE
    if one_cluster(one, other):
        assert one.residence is not None
        return agree(first, second, one.iterators[: one.residence.depth])
    if one.residence is not None or other.residence is not None:
        return FALSE  # Of two launches.
    if one.task is None and other.task is None:
        return Truth(not placed.follows_a_task(one) and not placed.follows_a_task(other))
    depth = one.task
    if depth is None or other.task != depth or one.loops[:depth] != other.loops[:depth]:
        return FALSE
    return agree(first, second, one.iterators[:depth])


# --- elements -----------------------------------------------------------------------------------


def in_shape(placed: Placed, name: Sym, element: Sequence[CExpr]) -> BExpr:
    """The element lies inside its variable."""
    shape = placed.variables[name].shape
    return every(
        term
        for at, extent in zip(element, shape, strict=True)
        for term in (at_most(Int(0), at), less(at, extent))
    )


def inside(instance: Instance, access: Access, element: Sequence[CExpr]) -> BExpr:
    """The element lies in the window that an instance accesses."""
    terms: list[BExpr] = []
    for at, coord in zip(element, access.coords, strict=True):
        if isinstance(coord, Point):
            terms.append(equal(at, substitute(coord.at, instance.values)))
        else:
            terms.append(at_most(substitute(coord.lo, instance.values), at))
            terms.append(less(at, substitute(coord.hi, instance.values)))
    return every(terms)


def element_of(instance: Instance, access: Access) -> tuple[CExpr, ...]:
    """The element of an access that has one element: an interval's is its first."""
    return tuple(
        substitute(coord.at if isinstance(coord, Point) else coord.lo, instance.values)
        for coord in access.coords
    )


# --- threads ------------------------------------------------------------------------------------


def thread_at(threads: ThreadMap, values: Mapping[Sym, CExpr], at: Sequence[CExpr]) -> CExpr:
    """The natural index of the thread at these positions of the axes."""
    total: CExpr = Int(0)
    for axis, position in zip(threads.axes, at, strict=True):
        term = Mul(axis.pitch, Add(substitute(axis.offset, values), position))
        total = term if total == Int(0) else Add(total, term)
    return total


def on_axes(threads: ThreadMap, at: Sequence[CExpr]) -> BExpr:
    """The positions lie on the axes."""
    return every(
        term
        for axis, position in zip(threads.axes, at, strict=True)
        for term in (at_most(Int(0), position), less(position, Int(axis.extent)))
    )


def executes(thread: CExpr, instance: Instance) -> BExpr:
    """The thread executes the instance.

    The positions are the digits of the thread's index in the radices of the axes, which are
    ordered by falling pitch: where they lie on the axes and leave no rest, the index is the sum
    of the axes' terms.
    """
    threads = instance.site.op.origin.threads
    if threads is None:
        return TRUE
    terms: list[BExpr] = []
    rest = thread
    for axis in threads.axes:
        first = substitute(axis.offset, instance.values)
        digit = rest if axis.pitch == 1 else FloorDiv(rest, axis.pitch)
        terms.append(at_most(first, digit))
        terms.append(less(digit, plus(first, axis.extent)))
        rest = Int(0) if axis.pitch == 1 else Sub(rest, Mul(axis.pitch, digit))
    terms.append(equal(rest, Int(0)))
    return every(terms)


def variables(names: Iterable[Sym]) -> dict[Sym, CExpr]:
    """Each name as an expression."""
    return {name: CVar(name) for name in names}
