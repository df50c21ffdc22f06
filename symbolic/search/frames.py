"""Operations as families of instances: domain, order, accesses, threads, and pairs of them.

A `Frame` is a common prefix of loops whose iterators are taken as parameters: all that happens
between two points of one iteration of these loops happens in that iteration.  In a frame, an
instance of site 7 is the tuple `S7[k, m]` of the iterators that remain, and order is the
sequential order of the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from exogpu.amir.nodes import Loop
from exogpu.ir.nodes import Access, BExpr, Interval, Point
from exogpu.ir.render import conjunction, identifier
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, expressions_of
from exogpu.solvers import isl
from exogpu.solvers import isl_relations as rel
from exogpu.symbolic.search.load_relations import as_loaded, in_order, one_value, reads, same_loads
from exogpu.symbolic.search.shared_threads import Sharing
from exogpu.symbolic.sites import (
    Site,
    UndecidedError,
    loads_around,
    of_tasks,
    one_cluster,
    order_of,
)

if TYPE_CHECKING:
    from exogpu.symbolic.search.instance_model import Model


class Frame:
    """The instances within one iteration of the loops of a prefix, whose iterators are
    parameters."""

    def __init__(
        self,
        model: Model,
        loops: tuple[Loop, ...],
        sites: tuple[Site, ...],
        *,
        by_task: bool = False,
    ) -> None:
        self.model = model
        self.by_task = by_task
        """Threads that execute one task of a cluster and another are two, as they are to records of
        memory that does not reside (decision `resident-memory`)."""
        self.loops = loops
        self.sites = sites
        self.depth = len(loops)
        self.params = (*model.names, *(identifier(loop.iterator) for loop in loops))
        """All that a finding may depend on."""
        self.read = model.symbols_of(sites, self.depth)
        """The symbols that all relations read: an access that reads more has further parameters,
        since each costs every operation time."""
        self._head = self.head_of(self.read)
        self.sharing = Sharing(self.depth, self._head, model.definitions.expr)
        self._context: isl.Set | None = None
        self._numbers: dict[object, int] = {}
        self._places: dict[int, int] = {}
        self._kinds: dict[int, int] = {}
        # By what sites have in common; those of a site differ in the tuple's name alone.
        self._domains: dict[int, isl.Set] = {}
        self._cells: dict[tuple[int, Access], isl.Map] = {}
        self._orders: dict[tuple[int, int, int, bool], isl.Map] = {}
        self._texts: dict[tuple[tuple[Loop, ...], tuple[Loop, ...], bool], isl.Map] = {}
        self._alike: dict[tuple[object, ...], isl.Map] = {}
        # By sites.
        self._domain: dict[int, isl.Set] = {}
        self._cell: dict[tuple[int, Access], isl.Map] = {}
        self._single: dict[tuple[str, int], isl.Map] = {}
        self._pairs: dict[tuple[str, int, int], isl.Map] = {}

    def head_of(self, read: frozenset[Sym]) -> str:
        """ISL text of the parameters among some names."""
        names = {identifier(name) for name in read}
        return f"[{', '.join(name for name in self.params if name in names)}] -> "

    @property
    def preconditions(self) -> isl.Set:
        """The preconditions, on the parameters of all relations."""
        return self.model.known_preconditions(self.read)

    def context(self) -> isl.Set:
        """The parameters that occur: the exact context and the bounds of the frame's loops."""
        if self._context is None:
            first = self.sites[0]
            inside = {loop.iterator for loop in self.loops}
            loaded = {load.iterator for load in self.model.loads} - inside
            bounds = [self.model.in_range(loop) for loop in self.loops if not reads(loop, loaded)]
            bounds += [
                self.model.condition(b)
                for at, b in first.guards
                if at < self.depth and not control_variables(b) & loaded
            ]
            own = rel.context(self.params, conjunction(bounds))
            self._context = own.intersect(self.model.exact_context)
        return self._context

    # --- what sites have in common ----------------------------------------------------------

    def _place(self, site: Site) -> int:
        """Sites with the same number have the same instances, but for their tuple's name."""
        if site.number not in self._places:
            loaded = {load.iterator for load in loads_around(site)}
            guards = tuple(
                guard
                for guard in site.guards
                if guard[0] >= self.depth or control_variables(guard[1]) & loaded
            )
            self._places[site.number] = self._number((site.loops, guards))
        return self._places[site.number]

    def _kind(self, site: Site) -> int:
        """Sites with the same number have the same instances with the same threads."""
        if site.number not in self._kinds:
            threads = site.op.origin.threads
            # Outside of tasks it matters whether one has begun.
            outside = site.number if threads is not None and site.task is None else None
            self._kinds[site.number] = self._number(
                (self._place(site), threads, site.task, outside)
            )
        return self._kinds[site.number]

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _of_pair(
        self, what: str, first: Site, second: Site, make: Callable[[], isl.Map], end: str = ""
    ) -> isl.Map:
        """A relation of two sites, which depends on their kinds and their order; `end` follows
        the name of the second's tuple."""
        key = (what, first.number, second.number)
        if key not in self._pairs:
            alike = (what, self._kind(first), self._kind(second), *order_of(first, second))
            if alike not in self._alike:
                self._alike[alike] = make()
            self._pairs[key] = rel.relation_between(
                self._alike[alike], first.tuple_name, f"{second.tuple_name}{end}"
            )
        return self._pairs[key]

    def of_places(
        self, what: object, first: Site, second: Site, make: Callable[[], isl.Map]
    ) -> isl.Map:
        """A relation of two sites, which depends on their places, their order, and on `what`."""
        alike = (what, self._place(first), self._place(second), *order_of(first, second))
        if alike not in self._alike:
            self._alike[alike] = make()
        return rel.relation_between(self._alike[alike], first.tuple_name, second.tuple_name)

    # --- sites ------------------------------------------------------------------------------

    def dimensions(self, site: Site) -> tuple[str, ...]:
        """The dimensions of a site's tuple."""
        return tuple(identifier(name) for name in site.iterators[self.depth :])

    def _tuple(self, site: Site) -> str:
        """`[k_3, m_5]`"""
        return f"[{', '.join(self.dimensions(site))}]"

    def domain(self, site: Site) -> isl.Set:
        """The instances of a site."""
        if site.number not in self._domain:
            found = self._instances(site)
            self._domain[site.number] = found.set_tuple_name(site.tuple_name)
        return self._domain[site.number]

    def _instances(self, site: Site) -> isl.Set:
        """The same without the tuple's name."""
        place = self._place(site)
        if place not in self._domains:
            loaded = {load.iterator for load in loads_around(site)}
            bounds = [
                self.model.in_range(loop)
                for at, loop in enumerate(site.loops)
                if at >= self.depth or reads(loop, loaded)
            ]
            guards = [
                b for at, b in site.guards if at >= self.depth or control_variables(b) & loaded
            ]
            bounds += [*map(self.model.condition, guards), *one_value(site)]
            definitions = self.model.definitions
            read = self.read.union(*(control_variables(definitions.condition(b)) for b in guards))
            text = f"{self.head_of(read)}{{ {self._tuple(site)} : {conjunction(bounds)} }}"
            known = self.model.known_preconditions(read)
            self._domains[place] = rel.set_under(isl.parse_set(text), known).coalesce()
        return self._domains[place]

    def cells(self, site: Site, access: Access) -> isl.Map:
        """The elements of an access that lie inside its variable: `S7[k] -> V2[i, j]`."""
        if (site.number, access) not in self._cell:
            key = (self._place(site), access)
            if key not in self._cells:
                self._cells[key] = self._element_map(site, access)
            self._cell[site.number, access] = rel.from_tuple(self._cells[key], site.tuple_name)
        return self._cell[site.number, access]

    def _element_map(self, site: Site, access: Access) -> isl.Map:
        variable = self.model.variables[access.name]
        read = self.read | self.model.read_by(*variable.shape, *expressions_of(access))
        dims = [f"e{at}" for at in range(len(access.coords))]
        inside, expr = list[str](), self.model.expr
        for dim, coord, extent in zip(dims, access.coords, variable.shape, strict=True):
            inside.append(f"0 <= {dim} < {expr(extent)}")
            match coord:
                case Point():
                    inside.append(f"{dim} = {expr(coord.at)}")
                case Interval():
                    inside.append(f"{expr(coord.lo)} <= {dim} < {expr(coord.hi)}")
                case _:
                    assert_never(coord)
        text = (
            f"{self.head_of(read)}{{ {self._tuple(site)} -> V{access.name.number}"
            f"[{', '.join(dims)}] : {conjunction(inside)} }}"
        )
        found = isl.restrict_domain(isl.parse_map(text), self._instances(site))
        if read != self.read:
            found = rel.restrict_parameters(found, self.model.known_preconditions(read))
        return found.coalesce()

    def instances_where(self, site: Site, condition: BExpr) -> isl.Set:
        """The instances of a site at which a condition of sizes and iterators holds."""
        read = self.read | control_variables(self.model.definitions.condition(condition))
        text = f"{self.head_of(read)}{{ {self._tuple(site)} : {self.model.condition(condition)} }}"
        found = isl.intersect(isl.parse_set(text), self._instances(site))
        return found.set_tuple_name(site.tuple_name)

    def in_range(self, site: Site, loop: Loop) -> isl.Set:
        """The tuples of a site, its instances among them, in which an iterator is in its range."""
        read = self.read | self.model.read_by(loop.lo, loop.hi)
        text = f"{self.head_of(read)}{{ {self._tuple(site)} : {self.model.in_range(loop)} }}"
        return isl.parse_set(text).set_tuple_name(site.tuple_name)

    def without_element(self, points: isl.Set, site: Site) -> isl.Map:
        """Instances of a site as pairs with no element: `S7[k] -> []`."""
        found = isl.parse_map(f"{self._head}{{ {self._tuple(site)} -> [] }}")
        return isl.restrict_domain(rel.from_tuple(found, site.tuple_name), points)

    def elements(self, name: Sym) -> isl.Set:
        """All elements of a variable, whatever the iteration and its guards: `V2[i, j]`."""
        shape = self.model.variables[name].shape
        inside = [f"0 <= e{at} < {self.model.expr(extent)}" for at, extent in enumerate(shape)]
        dims = ", ".join(f"e{at}" for at in range(len(shape)))
        text = f"{self._head}{{ V{name.number}[{dims}] : {conjunction(inside)} }}"
        return rel.set_under(isl.parse_set(text), self.preconditions)

    def everyone(self, site: Site) -> bool:
        """Tests whether the site stands at CPU scope: every thread of every task."""
        return site.op.origin.threads is None

    def threads(self, site: Site) -> isl.Map:
        """The executing threads of an instance: `S7[k] -> T[t]`.

        Raises UndecidedError at CPU scope, which has no such set, and outside of tasks, where
        the machine's task is the last one that ran.
        """
        return self._of_site("threads", site, lambda: self._thread_map(site))

    def _thread_map(self, site: Site) -> isl.Map:
        mapping = site.op.origin.threads
        assert mapping is not None
        if site.task is None and site.residence is None and self.model.follows_a_task(site):
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
        text = f"{self._head}{{ {self._tuple(site)} -> T[t] : {condition} }}"
        return isl.restrict_domain(isl.parse_map(text), self._instances(site)).coalesce()

    def _of_site(self, what: str, site: Site, make: Callable[[], isl.Map]) -> isl.Map:
        """A relation from the instances of a site, which depends on its kind."""
        if (what, site.number) not in self._single:
            alike = (what, self._kind(site))
            if alike not in self._alike:
                self._alike[alike] = make()
            self._single[what, site.number] = rel.from_tuple(self._alike[alike], site.tuple_name)
        return self._single[what, site.number]

    # --- pairs of sites -------------------------------------------------------------------

    def instances_before(self, first: Site, second: Site) -> isl.Map:
        """The pairs of instances of which the first comes earlier."""
        key = ("before", first.number, second.number)
        if key not in self._pairs:
            self._pairs[key] = rel.relation_between(
                self._earlier(first, second), first.tuple_name, second.tuple_name
            )
        return self._pairs[key]

    def earlier(self, first: Site, second: Site, name: Sym) -> isl.Map:
        """The pairs within one allocation of a variable, the first earlier."""
        before = self.instances_before(first, second)
        scope = self._scope(name, first)
        if scope <= 0:
            return before
        key = (f"earlier in {scope}", first.number, second.number)
        if key not in self._pairs:

            def make() -> isl.Map:
                same = self.in_scope(before, scope)
                return rel.coalesce(same) if self.model.loads else same

            self._pairs[key] = self.of_places(key[0], first, second, make)
        return self._pairs[key]

    def _earlier(self, first: Site, second: Site) -> isl.Map:
        """Some common loop is in an earlier iteration, the ones around it in the same; or all are
        in the same, and the first stands above the second."""
        common, above = order_of(first, second)
        key = (self._place(first), self._place(second), common, above)
        if key not in self._orders:
            order = self._in_text(first, second, common, above)
            order = isl.restrict_domain(
                self._one_task(order, first, second), self._instances(first)
            )
            self._orders[key] = rel.restrict_range(order, self._instances(second))
        return self._orders[key]

    def _in_text(self, first: Site, second: Site, common: int, above: bool) -> isl.Map:
        """The same of all iterations that there may be, whatever the bounds."""
        key = (first.loops, second.loops, above)
        if key not in self._texts:
            inside = first.loops[self.depth :]
            self._texts[key] = in_order(
                len(inside),
                len(second.loops) - self.depth,
                common - self.depth,
                above,
                tuple(
                    at
                    for at, one in enumerate(inside)
                    if one.slot is not None or one.source is not None
                ),
                same_loads(self, first, second),
            )
        return self._texts[key]

    def _one_task(self, order: isl.Map, first: Site, second: Site) -> isl.Map:
        """Without pairs at one position of two tasks, or at two of one: `resident-memory`."""
        tasks = of_tasks(first)
        if not tasks or not of_tasks(second) or not one_cluster(first, second):
            return order
        assert first.residence is not None
        ins, outs = len(first.loops) - self.depth, len(second.loops) - self.depth
        alike = rel.equal_dims(order, [(ins - d, outs - d) for d in range(1, len(tasks) + 1)])
        around = first.residence.depth - self.depth
        if around < 0:  # The position is a parameter.
            return alike
        launch = rel.equal_dims(order, [(d, d) for d in range(around)])
        here = rel.equal_dims(launch, [(around, around)])
        wrong = isl.union_map(
            isl.subtract_map(here, alike),
            isl.intersect_map(isl.subtract_map(launch, here), alike),
        )
        return rel.coalesce(isl.subtract_map(order, wrong))

    def within_task(self, relation: isl.Map, first: Site, second: Site) -> isl.Map:
        """The pairs that are not of two tasks of one launch in which memory resides."""
        residence = first.residence
        if residence is None or not one_cluster(first, second) or residence.depth < self.depth:
            return relation
        depth = residence.depth - self.depth
        launch = rel.equal_dims(relation, [(at, at) for at in range(depth)])
        task = rel.equal_dims(launch, [(depth, depth)])
        if depth == 0:
            return task
        return rel.coalesce(isl.union_map(isl.subtract_map(relation, launch), task))

    def pairs_sharing_thread(self, first: Site, second: Site) -> isl.Map:
        """The pairs, the first earlier, that some thread executes both of."""

        def make() -> isl.Map:
            found = self.same_task(self.instances_before(first, second), first, second)
            if self.everyone(first) or self.everyone(second) or found.is_empty():
                return found
            return found.intersect(self.sharing.common_pairs(first, second)).coalesce()

        return self._of_pair("shared", first, second, make)

    def covered_pairs(self, first: Site, second: Site) -> isl.Map:
        """The pairs, the first earlier, such that all threads of the second execute the first."""

        def make() -> isl.Map:
            found = self.same_task(self.instances_before(first, second), first, second)
            if self.everyone(first):
                return found
            if self.everyone(second):
                return rel.empty_like(found)
            if found.is_empty():
                return found
            return found.intersect(self.contained(second, first).reverse()).coalesce()

        return self._of_pair("covered", first, second, make)

    def with_thread(self, site: Site) -> isl.Map:
        """`S7[k] -> S7t[k, t]`: an instance with each of its threads."""
        name = f"{site.tuple_name}t"
        made = self._of_site("with", site, lambda: rel.extend_input(self.threads(site), name))
        return rel.relation_between(made, site.tuple_name, name)

    def thread_of(self, site: Site) -> isl.Map:
        """`S7t[k, t] -> T[t]`"""
        name = f"{site.tuple_name}t"
        made = self._of_site("of", site, lambda: rel.output_of_extended(self.threads(site), name))
        return rel.from_tuple(made, name)

    def thread_after(self, first: Site, second: Site) -> isl.Map:
        """The pairs, the first earlier, with each thread of the second that executes the first:
        `S7[k] -> S9t[j, t]`."""

        def make() -> isl.Map:
            later = self.same_task(self.instances_before(first, second), first, second)
            later = later.apply_range(self.with_thread(second))
            if self.everyone(first):
                return later
            return later.intersect(rel.pairs(self.threads(first), self.thread_of(second)))

        return self._of_pair("after", first, second, make, "t")

    def covers(self, first: Site, second: Site) -> isl.Map:
        """The pairs, the first earlier, such that all threads of the first execute the second."""

        def make() -> isl.Map:
            found = self.same_task(self.instances_before(first, second), first, second)
            if self.everyone(second):
                return found
            if self.everyone(first):
                return rel.empty_like(found)
            if found.is_empty():
                return found
            return found.intersect(self.contained(first, second)).coalesce()

        return self._of_pair("covers", first, second, make)

    def contained(self, inner: Site, outer: Site) -> isl.Map:
        """The pairs, in any order, such that all threads of the first execute the second."""
        return self.sharing.contained(inner, outer)

    def later_iteration(self, first: Site, second: Site, depth: int) -> isl.Map:
        """The pairs of which the second is in a later iteration of their `depth` common loops."""
        ins, outs = len(first.loops) - self.depth, len(second.loops) - self.depth
        order = rel.lexicographic(ins, outs, depth - self.depth, or_equal=False)
        order = isl.restrict_domain(order, self._instances(first))
        found = rel.restrict_range(order, self._instances(second))
        return rel.relation_between(found, first.tuple_name, second.tuple_name)

    def to_outer(self, site: Site, outer: Site) -> isl.Map:
        """From an instance to that of a site in some of its loops: `S7[k, s] -> S3[k]`."""
        dims = ", ".join(self.dimensions(outer))
        text = f"{self._head}{{ {self._tuple(site)} -> [{dims}] }}"
        found = isl.restrict_domain(isl.parse_map(text), self._instances(site))
        return rel.relation_between(found, site.tuple_name, outer.tuple_name)

    def value_of(self, site: Site, loop: Loop) -> isl.Map:
        """The value of an iterator at an instance: `S7[k, s] -> [s]`."""
        text = f"{self._head}{{ {self._tuple(site)} -> [{identifier(loop.iterator)}] }}"
        found = isl.restrict_domain(isl.parse_map(text), self._instances(site))
        return rel.from_tuple(found, site.tuple_name)

    def same_allocation(self, relation: isl.Map, first: Site, second: Site, name: Sym) -> isl.Map:
        """The pairs within one allocation of a variable that both use."""
        scope = self._scope(name, first)
        same = self.in_scope(relation, scope)
        return as_loaded(same, same_loads(self, first, second), scope)

    def _scope(self, name: Sym, site: Site) -> int:
        """Returns the number of dimensions that distinguish the allocations of a variable."""
        return len(self.model.scope(name, site.op.origin.span)) - self.depth

    def in_scope(self, relation: isl.Map, scope: int) -> isl.Map:
        """The pairs that agree in the dimensions which tell allocations apart."""
        return rel.equal_dims(relation, [(at, at) for at in range(scope)])

    def same_task(self, relation: isl.Map, first: Site, second: Site) -> isl.Map:
        """The pairs of one task, where memory resides of one cluster (decision `resident-memory`);
        a site at CPU scope shares every task (decision `figures-read`)."""
        if self.everyone(first) or self.everyone(second):
            return relation
        if one_cluster(first, second):
            assert first.residence is not None
            around = first.residence.depth - self.depth
            if self.by_task and first.task is not None and second.task is not None:
                around += 1
            return rel.equal_dims(relation, [(at, at) for at in range(max(0, around))])
        if first.residence is not None or second.residence is not None:
            return rel.empty_like(relation)  # Of two launches.
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
