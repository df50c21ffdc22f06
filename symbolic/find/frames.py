"""Operations as families of instances: domain, order, accesses, threads, and pairs of them.

A `Frame` is a common prefix of loops whose iterators are taken as parameters: all that happens
between two points of one iteration of these loops happens in that iteration.  In a frame, an
instance of site 7 is the tuple `S7[k, m]` of the iterators that remain, and order is the
sequential order of the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from exogpu.amir.nodes import Loop
from exogpu.ir.isltext import conjunction, identifier
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, Interval, Point
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.find.sharing import Sharing
from exogpu.symbolic.sites import Site, UndecidedError, expressions_of

if TYPE_CHECKING:
    from exogpu.symbolic.find.domains import Model


class Frame:
    """The instances within one iteration of the loops of a prefix, whose iterators are
    parameters."""

    def __init__(self, model: Model, loops: tuple[Loop, ...], sites: tuple[Site, ...]) -> None:
        self.model = model
        self.loops = loops
        self.sites = sites
        self.depth = len(loops)
        self.params = (*model.names, *(identifier(loop.iterator) for loop in loops))
        """All that a finding may depend on."""
        self._read = model.mentioned(sites, self.depth)
        """What all relations read: those of an access that reads more have further parameters,
        since each costs every operation time."""
        self._head = self._head_of(self._read)
        self.sharing = Sharing(self.depth, self._head, model.definitions.expr)
        self._domains: dict[int, isl.Set] = {}
        self._threads: dict[int, isl.Map] = {}
        self._before: dict[tuple[int, int], isl.Map] = {}
        self._shared: dict[tuple[int, int], isl.Map] = {}
        self._covered: dict[tuple[int, int], isl.Map] = {}
        self._cells: dict[tuple[int, Access], isl.Map] = {}

    def _head_of(self, read: frozenset[Sym]) -> str:
        names = {identifier(name) for name in read}
        return f"[{', '.join(name for name in self.params if name in names)}] -> "

    @property
    def known(self) -> isl.Set:
        """What the preconditions say of the parameters of all relations."""
        return self.model.known(self._read)

    def context(self) -> isl.Set:
        """The parameters that occur: the exact context and the bounds of the frame's loops."""
        first = self.sites[0]
        bounds = [self.model.in_range(loop) for loop in self.loops]
        bounds += [self.model.condition(b) for at, b in first.guards if at < self.depth]
        own = rel.context(self.params, conjunction(bounds))
        return own.intersect(self.model.exact_context)

    def inner(self, site: Site) -> tuple[str, ...]:
        """The dimensions of a site's tuple."""
        return tuple(identifier(name) for name in site.iterators[self.depth :])

    def tuple_text(self, site: Site) -> str:
        """`S7[k_3, m_5]`"""
        return f"{site.tuple_name}[{', '.join(self.inner(site))}]"

    def domain(self, site: Site) -> isl.Set:
        """The instances of a site."""
        if site.number not in self._domains:
            bounds = [self.model.in_range(loop) for loop in site.loops[self.depth :]]
            bounds += [self.model.condition(b) for at, b in site.guards if at >= self.depth]
            text = f"{self._head}{{ {self.tuple_text(site)} : {conjunction(bounds)} }}"
            whole = isl.parse_set(text)
            self._domains[site.number] = rel.set_under(whole, self.known).coalesce()
        return self._domains[site.number]

    def cells(self, site: Site, access: Access) -> isl.Map:
        """The elements of an access that lie inside its variable: `S7[k] -> V2[i, j]`."""
        if (site.number, access) not in self._cells:
            variable = self.model.variables[access.name]
            read = self._read | self.model.read_by(*variable.shape, *expressions_of(access))
            dims = [f"e{at}" for at in range(len(access.coords))]
            inside: list[str] = []
            for dim, coord, extent in zip(dims, access.coords, variable.shape, strict=True):
                inside.append(f"0 <= {dim} < {self.model.expr(extent)}")
                match coord:
                    case Point():
                        inside.append(f"{dim} = {self.model.expr(coord.at)}")
                    case Interval():
                        lo, hi = self.model.expr(coord.lo), self.model.expr(coord.hi)
                        inside.append(f"{lo} <= {dim} < {hi}")
                    case _:
                        assert_never(coord)
            text = (
                f"{self._head_of(read)}{{ {self.tuple_text(site)} -> V{access.name.number}"
                f"[{', '.join(dims)}] : {conjunction(inside)} }}"
            )
            found = isl.restrict_domain(isl.parse_map(text), self.domain(site))
            if read != self._read:
                found = found.intersect_params(self.model.known(read))
            self._cells[site.number, access] = found.coalesce()
        return self._cells[site.number, access]

    def elements(self, name: Sym) -> isl.Set:
        """All elements of a variable, whatever the iteration and its guards: `V2[i, j]`."""
        shape = self.model.variables[name].shape
        inside = [f"0 <= e{at} < {self.model.expr(extent)}" for at, extent in enumerate(shape)]
        dims = ", ".join(f"e{at}" for at in range(len(shape)))
        text = f"{self._head}{{ V{name.number}[{dims}] : {conjunction(inside)} }}"
        return rel.set_under(isl.parse_set(text), self.known)

    def everyone(self, site: Site) -> bool:
        """Whether the site stands at CPU scope: every thread of every task."""
        return site.op.origin.threads is None

    def threads(self, site: Site) -> isl.Map:
        """The executing threads of an instance: `S7[k] -> T[t]`.

        Raises UndecidedError at CPU scope, which has no such set, and outside of tasks, where
        the machine's task is the last one that ran.
        """
        if site.number not in self._threads:
            mapping = site.op.origin.threads
            assert mapping is not None
            if site.task is None and self.model.follows_a_task(site):
                raise UndecidedError("threads outside of tasks, after one", site.op.origin.span)
            offsets, inside = [], []
            for at, axis in enumerate(mapping.axes):
                offsets.append(f"{axis.pitch} * ({self.model.expr(axis.offset)} + j{at})")
                inside.append(f"0 <= j{at} < {axis.extent}")
            inside.append(f"t = {' + '.join(offsets) or '0'}")
            exists = ", ".join(f"j{at}" for at in range(len(mapping.axes)))
            condition = conjunction(inside)
            if exists:
                condition = f"exists {exists} : {condition}"
            text = f"{self._head}{{ {self.tuple_text(site)} -> T[t] : {condition} }}"
            self._threads[site.number] = isl.restrict_domain(
                isl.parse_map(text), self.domain(site)
            ).coalesce()
        return self._threads[site.number]

    # --- pairs of sites -------------------------------------------------------------------

    def before(self, first: Site, second: Site) -> isl.Map:
        """The pairs of instances of which the first comes earlier."""
        key = (first.number, second.number)
        if key not in self._before:
            self._before[key] = self._earlier(first, second)
        return self._before[key]

    def _earlier(self, first: Site, second: Site) -> isl.Map:
        """Some common loop is in an earlier iteration, the ones around it in the same; or all are
        in the same, and the first stands above the second."""
        common = 0
        for one, other in zip(first.loops, second.loops, strict=False):
            if one is not other:
                break
            common += 1
        here, there = self.domain(first), self.domain(second)
        above = first.path[common] < second.path[common]
        order = rel.lexicographic(
            len(first.loops) - self.depth,
            len(second.loops) - self.depth,
            common - self.depth,
            or_equal=above,
        )
        order = rel.between(order, first.tuple_name, second.tuple_name)
        order = isl.restrict_domain(order, here)
        return rel.coalesce(rel.restrict_range(order, there))

    def shared(self, first: Site, second: Site) -> isl.Map:
        """The pairs, the first earlier, that some thread executes both of."""
        key = (first.number, second.number)
        if key not in self._shared:
            found = self.same_task(self.before(first, second), first, second)
            if not self.everyone(first) and not self.everyone(second) and not found.is_empty():
                found = found.intersect(self.sharing.common(first, second)).coalesce()
            self._shared[key] = found
        return self._shared[key]

    def covered(self, first: Site, second: Site) -> isl.Map:
        """The pairs, the first earlier, such that all threads of the second execute the first."""
        key = (first.number, second.number)
        if key not in self._covered:
            found = self.same_task(self.before(first, second), first, second)
            if not self.everyone(first):
                if self.everyone(second):
                    found = rel.empty_like(found)
                elif not found.is_empty():
                    found = found.intersect(self.contained(second, first).reverse()).coalesce()
            self._covered[key] = found
        return self._covered[key]

    def with_thread(self, site: Site) -> isl.Map:
        """`S7[k] -> S7t[k, t]`: an instance with each of its threads."""
        return rel.extend_input(self.threads(site), f"{site.tuple_name}t")

    def thread_of(self, site: Site) -> isl.Map:
        """`S7t[k, t] -> T[t]`"""
        return rel.output_of_extended(self.threads(site), f"{site.tuple_name}t")

    def thread_after(self, first: Site, second: Site) -> isl.Map:
        """The pairs, the first earlier, with each thread of the second that executes the first:
        `S7[k] -> S9t[j, t]`."""
        later = self.same_task(self.before(first, second), first, second)
        later = later.apply_range(self.with_thread(second))
        if self.everyone(first):
            return later
        return later.intersect(rel.pairs(self.threads(first), self.thread_of(second)))

    def covers(self, first: Site, second: Site) -> isl.Map:
        """The pairs, the first earlier, such that all threads of the first execute the second."""
        found = self.same_task(self.before(first, second), first, second)
        if self.everyone(second):
            return found
        if self.everyone(first):
            return rel.empty_like(found)
        if found.is_empty():
            return found
        return found.intersect(self.contained(first, second)).coalesce()

    def contained(self, inner: Site, outer: Site) -> isl.Map:
        """The pairs, in any order, such that all threads of the first execute the second."""
        return self.sharing.contained(inner, outer)

    def same_allocation(self, relation: isl.Map, first: Site, second: Site, name: Sym) -> isl.Map:
        """The pairs within one allocation of a variable that both use."""
        scope = self.model.scope(name, first.op.origin.span)
        return rel.equal_dims(relation, [(at, at) for at in range(len(scope) - self.depth)])

    def same_task(self, relation: isl.Map, first: Site, second: Site) -> isl.Map:
        """The pairs of one task; a site at CPU scope shares every task (decision 2)."""
        if self.everyone(first) or self.everyone(second):
            return relation
        depth = first.task
        if depth is None and second.task is None:
            for site in (first, second):
                if self.model.follows_a_task(site) and not relation.is_empty():
                    span = site.op.origin.span
                    raise UndecidedError("threads outside of tasks, after one", span)
            return relation
        if depth is None or second.task != depth or first.loops[:depth] != second.loops[:depth]:
            return rel.empty_like(relation)
        return rel.equal_dims(relation, [(at, at) for at in range(max(0, depth - self.depth))])
