"""Windows of windows: threads exchange elements through shared memory, registers and global memory.

Each access goes through up to three windows, whose offsets and indices depend on iterators, and the
windows of global memory through up to two calls.  Unmutated programs are in bounds and safe;
mutations shift an offset, an extent or an index, or drop a synchronisation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random

from tests.machine.shapes.sources import (
    SIZE,
    Call,
    Callee,
    Coord,
    Extent,
    Line,
    Nest,
    Range,
    Sources,
    Statement,
    Term,
    View,
    Window,
    extent,
    text,
)

LANES = 4
"""Threads that take part, of a CTA of 32."""

ROWS = 2
"""Tasks, each of which has a row of what is written to global memory."""


@dataclass(frozen=True)
class Maker:
    """Draws statements; `terms` and `syncs` are what a mutation may change."""

    random: Random
    numbers: Iterator[int] = field(default_factory=count)
    terms: list[Term] = field(default_factory=list)
    syncs: list[Line] = field(default_factory=list)
    iterators: tuple[tuple[str, Extent], ...] = ()
    """In scope, with the largest value of each."""

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def name(self, stem: str) -> str:
        return f"{stem}{next(self.numbers)}"

    def within(self, iterator: str, most: Extent) -> Maker:
        return replace(self, iterators=(*self.iterators, (iterator, most)))

    # --- coordinates --------------------------------------------------------------------------

    def term(self, most: Extent) -> Term:
        """An expression of the iterators, from 0 to `most`."""
        found = [Term(str(n), (0, n)) for n in range(min(most[1], 2) + 1)]
        for name, last in self.iterators:
            for form, high in (
                (name, last),
                (f"{name} % 2", (0, 1)),
                (f"({name} + 1) % 3", (0, 2)),
                (f"1 - {name} % 2", (0, 1)),
                (f"2 * ({name} % 2)", (0, 2)),
                (f"{name} / 2", last),
            ):
                if high[0] <= most[0] and high[1] <= most[1]:
                    found.append(Term(form, high))
        if most[0] and most[1] >= 0:
            found.append(Term(SIZE, (1, 0)))
        return self.mutable(self.random.choice(found))

    def mutable(self, term: Term) -> Term:
        self.terms.append(term)
        return term

    def interval(self, size: Extent, least: int) -> tuple[Range, Extent]:
        """Some of a dimension's elements, no fewer than `least`, and how many they are."""
        if size == (0, least) or self.chance(0.15):
            return Range(Term("0"), Term(extent(size))), size
        whole = int(bool(size[0]) and self.chance(0.5))  # as long as the size is large
        first = self.term((size[0] - whole, size[1] - least))
        room = (size[0] - first.most[0], size[1] - first.most[1])
        long = (min(whole, room[0]), self.random.randint(least, max(least, room[1])))
        return Range(first, self.mutable(Term(extent(long)))), long

    def window(self, view: View) -> tuple[View, Line]:
        """A window of the view, which keeps its lanes."""
        coords: list[Coord] = []
        extents: list[Extent] = []
        lane, pinned = 0, {}
        for at, size in enumerate(view.extents):
            if at in view.pinned:
                where = view.pinned[at]
                if not where.isdigit() and where not in dict(self.iterators):
                    pinned[len(extents)] = where
                    coords.append(Range(Term("0"), Term(extent(size))))
                    extents.append(size)
                elif self.chance(0.5):
                    coords.append(Term(where))
                else:
                    pinned[len(extents)] = "0"
                    coords.append(Range(Term(where), Term("1")))
                    extents.append((0, 1))
                continue
            if at != view.lane and self.chance(0.4):
                coords.append(self.term((size[0], size[1] - 1)))
                continue
            if at == view.lane:
                lane = len(extents)
            if at == view.lane and view.spread:
                coord, long = Range(Term("0"), Term(extent(size))), size
            else:
                coord, long = self.interval(size, view.least if at == view.lane else 1)
            coords.append(coord)
            extents.append(long)
        source = (view, tuple(coords))
        name = self.name("w")
        made = View(name, tuple(extents), lane, view.least, pinned, source, view.spread)
        return made, Line(f"{name} = {{0}}", (source,), declares_window=True)

    def through(self, view: View, most: int) -> tuple[View, list[Statement]]:
        """The view, or a window of windows of it, and the lines that declare them."""
        declared: list[Statement] = []
        for _ in range(self.random.randint(0, most)):
            view, line = self.window(view)
            declared.append(line)
        return view, declared

    def element(self, view: View, lane: str, width: int = 0) -> Window:
        """An element at an index of the lanes, or `width` elements from there on."""
        coords: list[Coord] = []
        for at, size in enumerate(view.extents):
            if at in view.pinned:
                coords.append(Term(view.pinned[at]))
            elif at == view.lane:
                here = Term(lane) if view.spread else self.mutable(Term(lane))
                coords.append(Range(here, Term(str(width))) if width else here)
            else:
                coords.append(self.term((size[0], size[1] - 1)))
        return view, tuple(coords)

    def passed(self, view: View, param: View, more: int) -> Window:
        """A window of the view that has the extents of a parameter."""
        coords: list[Coord] = []
        points = len(view.extents) - len(param.extents)
        for at, (a, b) in enumerate(view.extents):
            if at < points:
                coords.append(self.term((a, b - 1)))
                continue
            asked = param.extents[at - points]
            long = (asked[0], asked[1] + asked[0] * more)
            pinned = at in view.pinned
            first = Term("0") if pinned else self.term((a - long[0], b - long[1]))
            coords.append(Range(first, Term(extent(long))))
        return view, tuple(coords)

    def at_lane(self, view: View, t: str, declared: list[Statement]) -> Window:
        """An element of the thread's own, at times through a window that begins there."""
        forms = [t]
        if view.least == 2 * LANES:
            forms = [t, t, f"{t} + {LANES}", f"2 * {t}"]
        if not view.spread:
            forms += [f"{LANES - 1} - {t}", f"({t} + 1) % {LANES}"]
        lane = self.random.choice(forms)
        if self.chance(0.7):
            return self.element(view, lane)
        coords, extents, pinned = [], [], {}
        for at, size in enumerate(view.extents):
            if at == view.lane:
                first = Term(lane) if view.spread else self.mutable(Term(lane))
                coords.append(Range(first, Term("1")))
                pinned[at] = "0"
            else:
                coords.append(Range(Term("0"), Term(extent(size))))
                if at in view.pinned:
                    pinned[at] = view.pinned[at]
            extents.append((0, 1) if at == view.lane else size)
        source = (view, tuple(coords))
        name = self.name("w")
        declared.append(Line(f"{name} = {{0}}", (source,), declares_window=True))
        return self.element(View(name, tuple(extents), 0, 1, pinned, source, view.spread), "0")

    def fence(self) -> Line:
        line = Line("Fence(cuda_in_order, cuda_in_order)")
        self.syncs.append(line)
        return line


# --- kernels ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variables:
    """What the threads of a task exchange elements by."""

    given: View
    taken: View
    shared: View
    registers: View
    groups: str


def lanes(t: str, body: list[Statement]) -> Nest:
    return Nest(f"for {t} in cuda_threads(0, {LANES}, unit=cuda_thread):", body)


def stored(m: Maker, v: Variables) -> Nest:
    """Each lane writes its elements of the shared variable: by itself, or copied."""
    t = m.name("t")
    target, body = m.through(v.shared, 1)
    source, more = m.through(v.given, 1)
    body += more
    how, n = m.random.choice(("=", "=", "+=", "vector", "copy")), m.random.choice((1, 2))
    first = f"2 * {t}"
    if target.least == LANES:
        n, first = 1, t
    if how == "vector":
        own = View(m.name("q"), ((0, 4),), 0, n)
        part, declared = m.through(own, 2)
        at = m.random.randint(0, max(0, part.extents[0][1] - n))
        held = (part, (Range(m.mutable(Term(str(at))), Term(str(n))),))
        wide = (m.element(target, first, n), m.element(source, first, n))
        load = Line(f"cuda_load({{0}}, {{1}}, n={n})", (held, wide[1]))
        store = Line(f"cuda_store({{0}}, {{1}}, n={n})", (wide[0], held))
        body += [Line(f"{own.name}: f32[4]"), *declared, load, store]
    elif how == "copy" and v.groups:
        pair = (m.element(target, first, n), m.element(source, first, n))
        group = f"{v.groups}[{t}]"
        body += [
            Line(f"Sm80_cp_async_copy({{0}}, {{1}}, n={n})", pair),
            Line(f"Arrive(Sm80_cp_async) >> {group}"),
            Line(f"Await({group}, cuda_in_order, 0)"),
        ]
    else:
        pair = (m.at_lane(target, t, body), m.at_lane(source, t, body))
        body.append(Line(f"{{0}} {'+=' if how == '+=' else '='} {{1}}", pair))
    return lanes(t, body)


def fetched(m: Maker, v: Variables) -> Nest:
    """Each lane reads what others wrote, into registers and on to global memory."""
    t = m.name("t")
    body: list[Statement] = []
    found: list[View] = []
    for view in (v.shared, v.registers, v.taken):
        inner, declared = m.through(view, 2)
        body += declared
        found.append(inner)
    back, own, out = found
    kept = m.at_lane(own, t, body)
    body.append(Line("{0} = {1}", (kept, m.at_lane(back, t, body))))
    if m.chance(0.3):
        kept = m.at_lane(own, t, body)
    body.append(Line("{0} = {1}", (m.at_lane(out, t, body), kept)))
    return lanes(t, body)


def swapped(m: Maker, v: Variables, k: str) -> list[Statement]:
    """One half of the shared variable is stored, and the other fetched, which is that of the
    iteration before: only where both are is what orders them."""
    by_rows = m.chance(0.5)
    (here, declared), (there, more) = (halved(m, v.shared, k, turn, by_rows) for turn in (0, 1))
    given, last = m.through(v.given, 1)
    one = stored(m, replace(v, shared=here, given=given))
    two = fetched(m, replace(v, shared=there))
    steps = [one, two] if m.chance(0.5) else [two, one]
    return [declared, more, *last, *steps, m.fence()]


def halved(m: Maker, view: View, k: str, turn: int, by_rows: bool) -> tuple[View, Line]:
    """The rows, or the lanes, that are in use in every other iteration."""
    others = [
        at
        for at, (_, least) in enumerate(view.extents)
        if least > 1 and at != view.lane and at not in view.pinned
    ]
    row = others[0] if others and by_rows else None
    coords: list[Coord] = []
    extents: list[Extent] = []
    lane, pinned = 0, {}
    for at, size in enumerate(view.extents):
        if at == row:
            coords.append(m.mutable(Term(f"({k} + 1) % 2" if turn else f"{k} % 2")))
            continue
        if at == view.lane:
            lane = len(extents)
        if at in view.pinned:
            pinned[len(extents)] = view.pinned[at]
        if at == view.lane and row is None:
            first = f"{LANES} - {LANES} * ({k} % 2)" if turn else f"{LANES} * ({k} % 2)"
            coords.append(Range(m.mutable(Term(first)), Term(str(LANES))))
            extents.append((0, LANES))
        else:
            coords.append(Range(Term("0"), Term(extent(size))))
            extents.append(size)
    name, least = m.name("w"), LANES if row is None else view.least
    source = (view, tuple(coords))
    made = View(name, tuple(extents), lane, least, pinned, source)
    return made, Line(f"{name} = {{0}}", (source,), declares_window=True)


def exchange(m: Maker, v: Variables) -> list[Statement]:
    """Elements are stored, and after a Fence fetched, through windows outside of both loops."""
    shared, declared = m.through(v.shared, 2)
    given, more = m.through(v.given, 1)
    v = replace(v, shared=shared, given=given)
    return [*declared, *more, stored(m, v), m.fence(), fetched(m, v), m.fence()]


def kernel(m: Maker, given: View, taken: View, scratch: View) -> list[Statement]:
    """A launch, in each task of which one or two exchanges are made, mostly in a loop."""
    r = m.random
    tasks = r.randint(1, ROWS)
    m = m.within("task", (0, tasks - 1))
    shape = ((0, r.choice((2, 3))), (0, 2 * LANES + r.randrange(4)), (0, 2))[: r.choice((2, 3))]
    shared = View(m.name("s"), shape, 1, 2 * LANES)
    registers = View(
        m.name("r"), ((0, LANES), (0, 3), (0, 4))[: r.choice((2, 3))], 0, 0, spread=True
    )
    in_smem, groups = m.chance(0.7), m.name("cg")
    sizes = ", ".join(str(b) for _, b in shared.extents)
    declared = [Line(f"{registers.name}: f32[{', '.join(str(b) for _, b in registers.extents)}]")]
    if in_smem:
        declared += [
            Line(f"{shared.name}: f32[{sizes}] @ CudaSmemLinear"),
            Line(f"{groups}: barrier[{LANES}] @ CudaCommitGroup"),
        ]
    v = Variables(
        given, taken, shared if in_smem else scratch, registers, groups if in_smem else ""
    )
    body: list[Statement] = [*declared]
    for _ in range(r.choice((1, 1, 2))):
        if m.chance(0.7):
            k = m.name("k")
            inner = m.within(k, (1, -1))
            steps = swapped(inner, v, k) if m.chance(0.4) else exchange(inner, v)
            body.append(Nest(f"for {k} in seq(0, {SIZE}):", steps))
        else:
            body += exchange(m, v)
    header = f"for task in cuda_tasks(0, {tasks}):"
    return [Nest("with CudaDeviceFunction(blockDim=32):", [Nest(header, body)])]


# --- procedures -------------------------------------------------------------------------------


def params(m: Maker, slack: int) -> tuple[View, View, View]:
    """What is read, what is written, and global memory to exchange by."""
    wide = 2 * LANES + slack
    given = View(m.name("x"), ((1, 3 + slack), (0, wide)), 1, 2 * LANES)
    taken = View(m.name("y"), ((0, ROWS), (1, 2 + slack), (0, wide)), 2, LANES, {0: "task"})
    scratch = View(m.name("z"), ((0, ROWS), (0, 2 + slack), (0, wide)), 2, 2 * LANES, {0: "task"})
    return given, taken, scratch


def body(m: Maker, variables: tuple[View, View, View], callees: list[Callee]) -> list[Statement]:
    """Windows at CPU scope, then a launch or a call of a procedure, at times in a loop."""
    found: list[Statement] = []
    if not callees or m.chance(0.3):
        views: list[View] = []
        for view in variables:
            inner, declared = m.through(view, 1)
            views.append(inner)
            found += declared
        found += kernel(m, *views)
    if callees:
        loop = m.name("i")
        looped = m.chance(0.3)
        inside = m.within(loop, (0, 1)) if looped else m
        callee, more = callees[-1], m.random.choice((0, 0, 1))
        pairs = zip(variables, callee.params, strict=True)
        call = Call(callee, more, tuple(inside.passed(v, param, more) for v, param in pairs))
        found.append(Nest(f"for {loop} in seq(0, 2):", [call]) if looped else call)
    return found


def windows(random: Random, mutations: tuple[int, ...] = (0, 1, 2, 3, 4)) -> Sources:
    """A program with one of so many mutations."""
    m = Maker(random)
    found: list[Callee] = []
    depth = random.choice((1, 1, 1, 2, 2, 3))
    for level in range(depth):
        variables = params(m, 2 * level + random.choice((1, 2)))
        found.append(Callee(f"p{level}", variables, body(m, variables, found)))
    for _ in range(random.choice(mutations)):
        if random.random() < 0.3:
            random.choice(m.syncs).dropped = True
        else:
            random.choice(m.terms).shift = random.choice((-1, 1))
    return Sources(text(found, direct=False), text(found, direct=True))
