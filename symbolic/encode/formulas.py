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
from exogpu.diagnostics.verdict import Policy
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, holds, substitute, substitute_bool
from exogpu.machine.literal_records import own_arrival
from exogpu.symbolic.model import Placed
from exogpu.symbolic.sites import Site, is_position, of_tasks, one_cluster

TRUE, FALSE = ir.Truth(True), ir.Truth(False)


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """One execution of an operation."""

    site: Site
    values: Mapping[Sym, ir.CExpr]
    """The values of every iterator around it."""


# --- connectives --------------------------------------------------------------------------------


def conjunction_of(terms: Iterable[ir.BExpr]) -> ir.BExpr:
    """The conjunction."""
    found: list[ir.BExpr] = []
    for term in terms:
        folded = _fold(term)
        if isinstance(folded, ir.Truth):
            if not folded.value:
                return FALSE
        else:
            found.append(folded)
    return reduce(ir.And, found) if found else TRUE


def disjunction_of(terms: Iterable[ir.BExpr]) -> ir.BExpr:
    """The disjunction."""
    found: list[ir.BExpr] = []
    for term in terms:
        folded = _fold(term)
        if isinstance(folded, ir.Truth):
            if folded.value:
                return TRUE
        else:
            found.append(folded)
    return reduce(ir.Or, found) if found else FALSE


def opposite(term: ir.BExpr) -> ir.BExpr:
    """The negation."""
    return ir.Truth(not term.value) if isinstance(term, ir.Truth) else ir.Not(term)


def _fold(term: ir.BExpr) -> ir.BExpr:
    if isinstance(term, ir.Compare) and type(term.left) is type(term.right):
        if isinstance(term.left, ir.Int):
            return ir.Truth(holds(term, {}))
        if term.left == term.right:
            return ir.Truth(term.op in ("==", "<=", ">="))
    return term


def equal(left: ir.CExpr, right: ir.CExpr) -> ir.BExpr:
    return ir.Compare("==", left, right)


def less_than(left: ir.CExpr, right: ir.CExpr) -> ir.BExpr:
    return ir.Compare("<", left, right)


def at_most(left: ir.CExpr, right: ir.CExpr) -> ir.BExpr:
    return ir.Compare("<=", left, right)


def received(policy: Policy, n: int, rank: ir.CExpr, bound: ir.CExpr) -> ir.BExpr:
    """States that an Await with skip count `n` and this Max receives a tag of this rank
    (`machine.literal_records.receives`)."""
    return equal(rank, bound) if own_arrival(policy, n) else at_most(rank, bound)


def plus(left: ir.CExpr, constant: int) -> ir.CExpr:
    """The sum with a constant."""
    if isinstance(left, ir.Int):
        return ir.Int(left.value + constant)
    if constant == 0:
        return left
    return ir.Add(left, ir.Int(constant)) if constant > 0 else ir.Sub(left, ir.Int(-constant))


# --- instances ----------------------------------------------------------------------------------


def exists(instance: Instance, but: Loop | None = None) -> ir.BExpr:
    """It is executed: its iterators lie within the bounds, `but` for those of one loop, and its
    guards hold."""
    site, values = instance.site, instance.values
    terms: list[ir.BExpr] = []
    for loop in site.loops:
        if loop is but:
            continue
        value = values[loop.iterator]
        terms.append(at_most(substitute(loop.lo, values), value))
        terms.append(less_than(value, substitute(loop.hi, values)))
    terms += (substitute_bool(condition, values) for _, condition in site.guards)
    return conjunction_of(terms)


def bearing_on(site: Site, read: Iterable[Sym]) -> set[Sym]:
    """These variables, and those that bounds and guards of a site compare them with."""
    wanted = set(read)
    inside = {loop.iterator: (loop.lo, loop.hi) for loop in site.loops}
    guards = [control_variables(condition) for _, condition in site.guards]
    while True:
        found = {name for of in wanted & inside.keys() for name in _variables_read(*inside[of])}
        for variables in guards:
            found |= variables if variables & wanted & inside.keys() else set()
        if found <= wanted:
            return wanted
        wanted |= found


def known_of(instance: Instance, read: Iterable[Sym]) -> ir.BExpr:
    """Returns the part of `exists` that concerns these iterators, and others as far as they bear on
    them.

    What is refuted without the rest of it is refuted with it.
    """
    site, values, terms = instance.site, instance.values, list[ir.BExpr]()
    wanted, inside = bearing_on(site, read), {*site.iterators}
    for loop in site.loops:
        if loop.iterator in wanted:
            value = values[loop.iterator]
            terms.append(at_most(substitute(loop.lo, values), value))
            terms.append(less_than(value, substitute(loop.hi, values)))
    for _, condition in site.guards:
        variables = control_variables(condition)
        if variables & wanted or not variables & inside:
            terms.append(substitute_bool(condition, values))
    return conjunction_of(terms)


def _variables_read(*expressions: ir.CExpr) -> set[Sym]:
    return {name for one in expressions for name in control_variables(one)}


def threads_read(site: Site) -> set[Sym]:
    """The iterators that tell the threads of a site's instances."""
    threads = site.op.origin.threads
    return set() if threads is None else _variables_read(*(axis.offset for axis in threads.axes))


def runs_before(first: Instance, second: Instance) -> ir.BExpr:
    """The first comes earlier in the sequential order: some common loop is in an earlier
    iteration, the ones around it in the same; or all are in the same, and the first stands
    above.

    Where memory resides (decision `resident-memory`) one task stands at each position: the
    iterators of tasks agree at one position, and do not at two.  The binding of a slot has one
    iteration (28), and so has that of a value from memory (32).
    """
    equals: list[ir.BExpr] = []
    orders: list[ir.BExpr] = []
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
            orders.append(conjunction_of([*equals, less_than(left, right), *apart]))
        equals.append(equal(left, right))
        equals += [one_task] if at_position else []
        common += 1
    if first.site.path[common] < second.site.path[common]:
        orders.append(conjunction_of(equals))
    return disjunction_of(orders)


def agree(first: Instance, second: Instance, iterators: Iterable[Sym]) -> ir.BExpr:
    """The instances have the same values of the iterators."""
    return conjunction_of(equal(first.values[name], second.values[name]) for name in iterators)


def same_allocation(placed: Placed, first: Instance, second: Instance, name: Sym) -> ir.BExpr:
    """The instances use one allocation of a variable."""
    scope = placed.scope(name, first.site.op.origin.span)
    return agree(first, second, (loop.iterator for loop in scope))


def within_task(first: Instance, second: Instance) -> ir.BExpr:
    """Two instances of a launch in which memory resides belong to one task, or to two executions
    of the launch."""
    assert first.site.residence is not None
    depth = first.site.residence.depth
    around, position = first.site.iterators[:depth], first.site.iterators[depth : depth + 1]
    others = [opposite(agree(first, second, around))] if around else []
    return disjunction_of([*others, agree(first, second, position)])


def everyone(site: Site) -> bool:
    """Tests whether the site stands at CPU scope: every thread of every task."""
    return site.op.origin.threads is None


def same_task(placed: Placed, first: Instance, second: Instance) -> ir.BExpr:
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
        return ir.Truth(not placed.follows_a_task(one) and not placed.follows_a_task(other))
    depth = one.task
    if depth is None or other.task != depth or one.loops[:depth] != other.loops[:depth]:
        return FALSE
    return agree(first, second, one.iterators[:depth])


# --- elements -----------------------------------------------------------------------------------


def in_shape(placed: Placed, name: Sym, element: Sequence[ir.CExpr]) -> ir.BExpr:
    """The element lies inside its variable."""
    shape = placed.variables[name].shape
    return conjunction_of(
        term
        for at, extent in zip(element, shape, strict=True)
        for term in (at_most(ir.Int(0), at), less_than(at, extent))
    )


def lies_in_window(instance: Instance, access: ir.Access, element: Sequence[ir.CExpr]) -> ir.BExpr:
    """The element lies in the window that an instance accesses."""
    terms: list[ir.BExpr] = []
    for at, coord in zip(element, access.coords, strict=True):
        if isinstance(coord, ir.Point):
            terms.append(equal(at, substitute(coord.at, instance.values)))
        else:
            terms.append(at_most(substitute(coord.lo, instance.values), at))
            terms.append(less_than(at, substitute(coord.hi, instance.values)))
    return conjunction_of(terms)


def element_of(instance: Instance, access: ir.Access) -> tuple[ir.CExpr, ...]:
    """The element of an access that has one element: an interval's is its first."""
    return tuple(
        substitute(coord.at if isinstance(coord, ir.Point) else coord.lo, instance.values)
        for coord in access.coords
    )


# --- threads ------------------------------------------------------------------------------------


def thread_at(
    threads: ThreadMap, values: Mapping[Sym, ir.CExpr], at: Sequence[ir.CExpr]
) -> ir.CExpr:
    """The natural index of the thread at these positions of the axes."""
    total: ir.CExpr = ir.Int(0)
    for axis, position in zip(threads.axes, at, strict=True):
        term = ir.Mul(axis.pitch, ir.Add(substitute(axis.offset, values), position))
        total = term if total == ir.Int(0) else ir.Add(total, term)
    return total


def on_axes(threads: ThreadMap, at: Sequence[ir.CExpr]) -> ir.BExpr:
    """The positions lie on the axes."""
    return conjunction_of(
        term
        for axis, position in zip(threads.axes, at, strict=True)
        for term in (at_most(ir.Int(0), position), less_than(position, ir.Int(axis.extent)))
    )


def executes(thread: ir.CExpr, instance: Instance) -> ir.BExpr:
    """The thread executes the instance.

    The positions are the digits of the thread's index in the radices of the axes, which are
    ordered by falling pitch: where they lie on the axes and leave no rest, the index is the sum
    of the axes' terms.
    """
    threads = instance.site.op.origin.threads
    if threads is None:
        return TRUE
    terms: list[ir.BExpr] = []
    rest = thread
    for axis in threads.axes:
        first = substitute(axis.offset, instance.values)
        digit = rest if axis.pitch == 1 else ir.FloorDiv(rest, axis.pitch)
        terms.append(at_most(first, digit))
        terms.append(less_than(digit, plus(first, axis.extent)))
        rest = ir.Int(0) if axis.pitch == 1 else ir.Sub(rest, ir.Mul(axis.pitch, digit))
    terms.append(equal(rest, ir.Int(0)))
    return conjunction_of(terms)


def variables(names: Iterable[Sym]) -> dict[Sym, ir.CExpr]:
    """Each name as an expression."""
    return {name: ir.CVar(name) for name in names}
