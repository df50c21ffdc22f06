"""Random procedures whose accesses may be out of bounds: windows of windows, points in windows,
calls of procedures, guards with `else`, division and remainder of negative numbers, extents that
use iterators, index arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from exogpu.hw.memories import DRAM
from exogpu.ir.nodes import (
    Access,
    Add,
    Alloc,
    Assign,
    Block,
    CallProc,
    CExpr,
    Compare,
    Const,
    ControlParam,
    Coord,
    CVar,
    DataParam,
    FloorDiv,
    For,
    If,
    Int,
    Interval,
    Mod,
    Mul,
    Point,
    Proc,
    Read,
    Reduce,
    Seq,
    Stmt,
    Sub,
    WindowStmt,
)
from exogpu.ir.types import DataType, Sym

F32: Final = DataType.F32
Shape = tuple[CExpr, ...]


@dataclass(slots=True)
class _Maker:
    """Makes the statements of one procedure."""

    random: Random
    callees: tuple[Proc, ...]
    control: list[Sym] = field(default_factory=list)
    data: dict[Sym, Shape] = field(default_factory=dict)
    """What can be accessed here, with its extents."""
    room: int = 7
    """Statements left."""

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def expr(self, depth: int) -> CExpr:
        pick = self.random
        if depth == 0 or self.chance(0.3):
            named = bool(self.control) and self.chance(0.75)
            return CVar(pick.choice(self.control)) if named else Int(pick.randint(-2, 4))
        match pick.randrange(7):
            case 0 | 1:
                return Add(self.expr(depth - 1), self.expr(depth - 1))
            case 2:
                return Sub(self.expr(depth - 1), self.expr(depth - 1))
            case 3:
                return Mul(pick.choice([-1, 2]), self.expr(depth - 1))
            case 4 | 5:
                return FloorDiv(self.expr(depth - 1), pick.choice([2, 3]))
            case _:
                return Mod(self.expr(depth - 1), pick.choice([2, 3, 4]))

    def index(self, extent: CExpr) -> CExpr:
        """More often than not inside: the last element, or a remainder by a constant extent."""
        match self.random.randrange(5):
            case 0:
                return Sub(extent, Int(1))
            case 1 if isinstance(extent, Int) and extent.value > 0:
                return Mod(self.expr(2), extent.value)
            case 2 | 3 if self.control:
                return CVar(self.random.choice(self.control))
            case _:
                return self.expr(2)

    def element(self) -> Access:
        name = self.random.choice(list(self.data))
        return Access(name, tuple(Point(self.index(extent)) for extent in self.data[name]))

    def window(self, asked: Shape | None = None) -> tuple[Access, Shape] | None:
        """A window of some variable, of the extents asked for; None if no variable has so many."""
        rank = 1 if asked is None else len(asked)
        fitting = [name for name, shape in self.data.items() if len(shape) >= rank]
        if not fitting:
            return None
        name = self.random.choice(fitting)
        shape = self.data[name]
        points = set(self.random.sample(range(len(shape)), len(shape) - rank))
        if asked is None and self.chance(0.5):
            points = set()
        coords: list[Coord] = []
        extents: list[CExpr] = []
        for at, extent in enumerate(shape):
            if at in points:
                coords.append(Point(self.index(extent)))
                continue
            lo = self.random.choice([Int(0), Int(0), Int(1), self.expr(1)])
            if asked is None:
                hi = self.random.choice([extent, Add(lo, Int(2)), Add(lo, self.expr(1)), lo])
            else:
                hi = Add(lo, asked[len(extents)])
            coords.append(Interval(lo, hi))
            extents.append(Sub(hi, lo))
        return Access(name, tuple(coords)), tuple(extents)

    def block(self, depth: int) -> Block:
        control, data = list(self.control), dict(self.data)
        found: list[Stmt] = []
        for _ in range(self.random.randint(1, 3)):
            if self.room > 0:
                self.room -= 1
                found += self.statement(depth)
        self.control, self.data = control, data
        return tuple(found)

    def statement(self, depth: int) -> list[Stmt]:
        match self.random.randrange(10):
            case 0 | 1 if depth:
                return [self.loop(depth)]
            case 2 if depth:
                operator = self.random.choice(["<", "<=", "==", "!=", ">", ">="])
                condition = Compare(operator, self.expr(2), self.expr(1))
                orelse = self.block(depth - 1) if self.chance(0.5) else ()
                return [If(condition, self.block(depth - 1), orelse)]
            case 3 | 4:
                made = self.window()
                if made is not None:
                    name = Sym("w")
                    self.data[name] = made[1]
                    return [WindowStmt(name, made[0], None)]
            case 5:
                name = Sym("t")
                shape = (self.random.choice([Int(3), self.expr(1), Add(self.expr(1), Int(2))]),)
                self.data[name] = shape
                return [Alloc(name, F32, shape, DRAM)]
            case 6 | 7 if self.callees:
                made = self.window((size := self.random.choice([Int(1), Int(2), self.expr(1)]),))
                if made is not None:
                    callee = self.random.choice(self.callees)
                    return [CallProc(callee, (size, made[0]))]
            case _:
                pass
        target, source = self.element(), self.element()
        kind = self.random.choice([Assign, Reduce])
        return [kind(target, Read(source) if self.chance(0.3) else Const(1.0))]

    def loop(self, depth: int) -> For:
        iterator = Sym(self.random.choice("ik"))
        lo = self.random.choice([Int(0), Int(0), Int(1), self.expr(1)])
        hi = self.expr(1)
        self.control.append(iterator)
        made = For(iterator, lo, hi, Seq(), self.block(depth - 1))
        self.control.remove(iterator)
        return made


def _callee(random: Random, callees: tuple[Proc, ...]) -> Proc:
    """`callee(n: size, x: f32[n])`."""
    n, x = Sym("n"), Sym("x")
    maker = _Maker(random, callees, [n], {x: (CVar(n),)}, room=3)
    params = (ControlParam(n, "size"), DataParam(x, F32, (CVar(n),), DRAM))
    zero = Compare(">=", CVar(n), Int(0))
    return Proc("callee", params, (zero,) if maker.chance(0.5) else (), maker.block(2))


def procedure(random: Random) -> Proc:
    """`p(K: size, j: index, a, b)`; it may be ill-formed, too."""
    inner = _callee(random, ())
    outer = _callee(random, (inner,))
    size, j, a, b = Sym("K"), Sym("j"), Sym("a"), Sym("b")
    rows = random.choice([CVar(size), Int(4), Add(CVar(size), Int(2))])
    shapes = {a: (rows,), b: (CVar(size), Int(4))}
    control = [size, j] if random.random() < 0.5 else [size]
    maker = _Maker(random, (inner, outer), control, dict(shapes))
    params = [ControlParam(size, "size")]
    if j in control:
        params.append(ControlParam(j, "index"))
    data = (DataParam(name, F32, shape, DRAM) for name, shape in shapes.items())
    return Proc("p", (*params, *data), (), maker.block(3))
