"""A small builder of AMIR programs for the tests of the abstract machine.

    b = Builder()
    x, z = b.data("x", 4), b.barrier("z", 2)
    b.alloc(z)
    with b.loop("k", 0, 4) as k:
        b.write(x[k], t(0), Q0)
        b.arrive(t(0), {Q0}, z[mod(k, 2)], transitive=True)
    program = b.program(Policy.PTX)

Each operation gets its own source line, so that a violation can be told by its line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from exogpu.amir import nodes as amir
from exogpu.amir.slot_privacy import with_comparisons
from exogpu.analysis.threadmap import ThreadAxis, ThreadMap
from exogpu.diagnostics.errors import Span
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Policy
from exogpu.hw.timelines import ONLY_BEFORE
from exogpu.ir.nodes import (
    Access,
    Add,
    BExpr,
    CExpr,
    Compare,
    ControlParam,
    Coord,
    CVar,
    FloorDiv,
    Int,
    Interval,
    Mod,
    Mul,
    Point,
    Sub,
)
from exogpu.ir.types import BarrierMechanism, Level, QualTL, Sym, SyncTL

# Three timelines outside the async proxy, so that 7(a) of ptx plays no part; and two inside.
Q0, Q1, Q2 = QualTL.CUDA1, QualTL.CUDA2, QualTL.SM80
TMA, WGS = QualTL.TMA_S, QualTL.WG_S

MBARRIER = BarrierMechanism.MBARRIER
COMMIT = BarrierMechanism.COMMIT_GROUP
CLUSTER = BarrierMechanism.CLUSTER_SYNC

FULL, TEMPORAL, UNORDERED, ATOMIC = (
    Level.FULLY_ORDERED,
    Level.TEMPORALLY_ORDERED,
    Level.UNORDERED,
    Level.ATOMIC_ONLY,
)

Control = CExpr | int
CPU = None
"""As `by`: CPU scope."""


def c(value: Control) -> CExpr:
    return Int(value) if isinstance(value, int) else value


def add(left: Control, right: Control) -> CExpr:
    return Add(c(left), c(right))


def sub(left: Control, right: Control) -> CExpr:
    return Sub(c(left), c(right))


def mul(factor: int, term: Control) -> CExpr:
    return Mul(factor, c(term))


def mod(term: Control, divisor: int) -> CExpr:
    return Mod(c(term), divisor)


def div(term: Control, divisor: int) -> CExpr:
    return FloorDiv(c(term), divisor)


def at_least(left: Control, right: Control) -> BExpr:
    return Compare(">=", c(left), c(right))


def t(first: Control, count: int = 1, pitch: int = 1) -> ThreadMap:
    """`count` threads from `first` on, `pitch` apart."""
    return ThreadMap((ThreadAxis(pitch, c(first), count),))


@dataclass(frozen=True)
class Name:
    """A variable of a program under construction; `x[...]` makes an access, `x[()]` a scalar's."""

    sym: Sym

    def __getitem__(self, item: object) -> Access:
        items = item if isinstance(item, tuple) else (item,)
        return Access(self.sym, tuple(_coord(i) for i in items))


def _coord(item: object) -> Coord:
    if isinstance(item, slice):
        return Interval(c(item.start), c(item.stop))
    return Point(c(item))


Timelines = QualTL | Iterable[QualTL]


def _set(timelines: Timelines) -> frozenset[QualTL]:
    return frozenset({timelines}) if isinstance(timelines, QualTL) else frozenset(timelines)


@dataclass
class Builder:
    """Collects operations in program order; blocks are context managers."""

    blocks: list[list[amir.Op]] = field(default_factory=lambda: [[]])
    variables: list[amir.Variable] = field(default_factory=list)
    params: list[ControlParam] = field(default_factory=list)
    line: int = 0

    # --- declarations ---------------------------------------------------------------------

    def size(self, name: str) -> CVar:
        sym = Sym(name)
        self.params.append(ControlParam(sym, "size"))
        return CVar(sym)

    def data(
        self,
        name: str,
        *shape: Control,
        shared: bool = False,
        local: bool = False,
        resident: bool = False,
    ) -> Name:
        sym = Sym(name)
        extents = tuple(c(n) for n in shape)
        local = local or (shared and not resident)
        self.variables.append(
            amir.Variable(sym, extents, shared=shared or resident, task_local=local)
        )
        return Name(sym)

    def barrier(
        self,
        name: str,
        *shape: Control,
        mechanism: BarrierMechanism = MBARRIER,
        depth: int | None = None,
        guard: Name | None = None,
        resident: bool = False,
    ) -> Name:
        sym = Sym(name)
        self.variables.append(
            amir.Variable(
                sym,
                tuple(c(n) for n in shape),
                mechanism,
                guard.sym if guard else None,
                depth,
                shared=mechanism.phased,
                task_local=not resident and mechanism is not BarrierMechanism.FLAG,
            )
        )
        return Name(sym)

    # --- structure ------------------------------------------------------------------------

    def origin(self, text: str, by: ThreadMap | None) -> amir.Origin:
        self.line += 1
        return amir.Origin(Span("test.py", self.line, 1, self.line, 2), text, by)

    def emit(self, op: amir.Op) -> amir.Op:
        self.blocks[-1].append(op)
        return op

    @contextmanager
    def loop(self, name: str, lo: Control, hi: Control, *, tasks: bool = False) -> Iterator[CVar]:
        sym = Sym(name)
        origin = self.origin(f"for {name}", None)
        self.blocks.append([])
        yield CVar(sym)
        body = tuple(self.blocks.pop())
        self.emit(amir.Loop(sym, c(lo), c(hi), body, origin, tasks=tasks))

    @contextmanager
    def tasks(self, name: str, lo: Control, hi: Control) -> Iterator[CVar]:
        with self.loop(name, lo, hi, tasks=True) as iterator:
            self.emit(amir.IncTaskID(self.origin("task", None)))
            yield iterator

    @contextmanager
    def when(self, condition: BExpr) -> Iterator[None]:
        origin = self.origin("if", None)
        self.blocks.append([])
        yield
        body = tuple(self.blocks.pop())
        self.emit(amir.Guard(condition, body, origin))

    def program(
        self, policy: Policy = Policy.PTX, name: str = "p", *, compared: bool = True
    ) -> amir.Program:
        """With what tasks require of slots, as lowering adds it, unless it is not `compared`."""
        assert len(self.blocks) == 1
        params, variables = tuple(self.params), tuple(self.variables)
        made = amir.Program(name, params, (), variables, tuple(self.blocks[0]), policy)
        return with_comparisons(made) if compared else made

    # --- operations -----------------------------------------------------------------------

    def alloc(self, name: Name) -> amir.Op:
        return self.emit(amir.Alloc(name.sym, self.origin(f"alloc {name.sym}", None)))

    def release(self, name: Name) -> amir.Op:
        return self.emit(amir.Release(name.sym, self.origin(f"release {name.sym}", None)))

    def free_barrier(self, name: Name) -> amir.Op:
        """CheckBarrier, then Release; the operation that can fail is returned."""
        check = self.emit(amir.CheckBarrier(name.sym, self.origin(f"free {name.sym}", t(0))))
        self.release(name)
        return check

    def record(
        self,
        access: Access,
        by: ThreadMap | None,
        timeline: QualTL | None,
        *,
        mutate: bool = False,
        level: Level = FULL,
        convergent: bool = False,
        atomic: Timelines = (),
        trailing: amir.Trailing | None = None,
    ) -> amir.Op:
        origin = self.origin(f"record {access.name}", by)
        return self.emit(
            amir.Record(mutate, level, convergent, access, timeline, _set(atomic), trailing, origin)
        )

    def check(
        self,
        access: Access,
        by: ThreadMap | None,
        timelines: Timelines,
        *,
        mutates: bool,
        level: Level = FULL,
        convergent: bool = False,
        free: bool = False,
        reads: bool = False,
    ) -> amir.Op:
        origin = self.origin(f"check {access.name}", by)
        return self.emit(
            amir.Check(mutates, level, convergent, access, _set(timelines), origin, free, reads)
        )

    def clear(self, access: Access, *, mutates: bool) -> amir.Op:
        return self.emit(amir.Clear(mutates, access, self.origin("clear", None)))

    def fence(
        self,
        by: ThreadMap | None,
        pre: Timelines,
        full: Timelines = (),
        temporal: Timelines = (),
        *,
        transitive: bool = False,
        joins: bool = True,
    ) -> amir.Op:
        """`temporal` is added to `full`, as T_qtmp is a superset of T_qfull."""
        wide = _set(temporal) | _set(full)
        origin = self.origin("fence", by)
        return self.emit(amir.Fence(transitive, _set(pre), _set(full), wide, origin, joins=joins))

    def fence_tl(self, by: ThreadMap | None, pre: SyncTL, post: SyncTL, policy: Policy) -> amir.Op:
        """A Fence of two rows of the table of sync timelines."""
        before, after = pre.sets_under(policy), post.sets_under(policy)
        joins = pre.name not in ONLY_BEFORE
        way = before.full, after.full, after.temporal
        return self.fence(by, *way, transitive=pre.transitive, joins=joins)

    def arrive(
        self,
        by: ThreadMap | None,
        pre: Timelines,
        home: Access,
        *others: Access,
        transitive: bool = False,
    ) -> amir.Op:
        origin = self.origin(f"arrive {home.name}", by)
        return self.emit(amir.Arrive(transitive, _set(pre), home, (home, *others), origin))

    def await_(
        self,
        barrier: Access,
        by: ThreadMap | None,
        full: Timelines = (),
        temporal: Timelines = (),
        n: int = -1,
    ) -> amir.Op:
        wide = _set(temporal) | _set(full)
        origin = self.origin(f"await {barrier.name}", by)
        return self.emit(amir.Await(barrier, _set(full), wide, n, origin))

    # --- statements, as the conversion writes them -----------------------------------------

    def read(
        self,
        access: Access,
        by: ThreadMap | None,
        timeline: QualTL,
        *,
        level: Level = FULL,
        convergent: bool = False,
        trailing: amir.Trailing | None = None,
    ) -> amir.Op:
        """A read; its check, which is returned, is fully ordered, `level` is the record's."""
        found = self.check(access, by, timeline, mutates=True, convergent=convergent, reads=True)
        self.record(access, by, timeline, level=level, convergent=convergent, trailing=trailing)
        return found

    def write(
        self,
        access: Access,
        by: ThreadMap | None,
        timeline: QualTL,
        *,
        reads: bool = False,
        level: Level = FULL,
        convergent: bool = False,
        trailing: amir.Trailing | None = None,
    ) -> tuple[amir.Op, amir.Op]:
        """An overwrite or, where `reads`, an update; returns its checks (of mutates, of reads)."""
        pre = FULL if reads else TEMPORAL
        of_mutates = self.check(
            access, by, timeline, mutates=True, level=pre, convergent=convergent, reads=reads
        )
        of_reads = self.check(
            access, by, timeline, mutates=False, level=TEMPORAL, convergent=convergent
        )
        self.clear(access, mutates=False)
        self.clear(access, mutates=True)
        self.record(
            access,
            by,
            timeline,
            mutate=True,
            level=level,
            convergent=convergent,
            trailing=trailing,
        )
        return of_mutates, of_reads

    def multicast(
        self,
        x: Callable[[Control], Access],
        by: Callable[[Control], ThreadMap],
        z: Callable[[Control], Access],
        ctas: int,
        timeline: QualTL = TMA,
    ) -> None:
        """A copy by threads of each CTA into the windows of all of them: what lands in a CTA
        completes on its own element of the barrier (decision `multicast-tags`).  The records
        alone."""
        with self.loop("home", 0, ctas) as home, self.loop("landing", 0, ctas) as landing:
            trailing = amir.Trailing(z(home), (z(landing),))
            self.record(
                x(landing), by(home), timeline, mutate=True, level=UNORDERED, trailing=trailing
            )

    def free(self, access: Access, by: ThreadMap, timeline: QualTL = Q1) -> tuple[amir.Op, amir.Op]:
        """The checks of a free (of mutates, of reads); the state stays."""
        return (
            self.check(access, by, timeline, mutates=True, level=TEMPORAL, free=True),
            self.check(access, by, timeline, mutates=False, level=TEMPORAL, free=True),
        )


RAW, WAR, WAW, FREE = HazardKind.RAW, HazardKind.WAR, HazardKind.WAW, HazardKind.FREE
LEAK = HazardKind.LEAK
BARRIER, DEADLOCK, PHASE = HazardKind.BARRIER, HazardKind.DEADLOCK, HazardKind.PHASE


def dropping(program: amir.Program) -> amir.Program:
    """The program of which nothing is required: elements outside of a variable are left out of
    every window."""

    def loose(block: amir.Block) -> Iterator[amir.Op]:
        for op in block:
            match op:
                case amir.Loop() | amir.Guard():
                    yield replace(op, body=tuple(loose(op.body)))
                case amir.Record():
                    yield replace(op, inside=False)
                case amir.Require():
                    pass
                case _:
                    yield op

    return replace(program, body=tuple(loose(program.body)))
