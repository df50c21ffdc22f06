"""Random small procedures, for the sequential interpreters to agree on.

Values stay small integers (stores clamp, sums are short), so that float32 sums are exact and the
order of addition cannot show; in bf16 and f16 it can, and must be the program's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import numpy as np

from exogpu.hw.memories import DRAM
from exogpu.hw.operands import HOST, clipped
from exogpu.hw.units import cuda_thread, standalone_thread
from exogpu.ir.affine import Range, from_cexpr, interval, variable
from exogpu.ir.nodes import (
    Access,
    Add,
    Alloc,
    And,
    Apply,
    Argument,
    Assign,
    BExpr,
    BinOp,
    Block,
    CallInstr,
    CallProc,
    CExpr,
    Compare,
    Const,
    ControlParam,
    CudaTasks,
    CudaThreads,
    CVar,
    DataParam,
    DExpr,
    FloorDiv,
    For,
    If,
    Instr,
    Int,
    Interval,
    Mod,
    Mul,
    Not,
    Or,
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

F32, BF16, F16, I32 = DataType.F32, DataType.BF16, DataType.F16, DataType.I32
INTEGERS = frozenset({I32})
SHAPES = {"A": (8, 8), "x": (32,), "s": (), "n": (16,), "b": (16,)}


@dataclass(frozen=True)
class Known:
    """A data variable in scope; indices are kept below its extents."""

    name: Sym
    dtype: DataType
    extents: tuple[int, ...]


@dataclass
class Scope:
    iterators: list[Sym]
    data: list[Known]
    depth: int
    calls: bool
    ranges: dict[Sym, Range] = field(default_factory=dict)


class Generator:
    """Draws procedures, evenly: hypothesis' own draws lean to empty loops and zeros."""

    def __init__(self, seed: int):
        self.random = Random(seed)

    def pick(self, *options):
        return self.random.choice(options)

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    # --- control --------------------------------------------------------------------------

    def index(self, scope: Scope, depth: int = 2) -> CExpr:
        kind = self.pick(
            "int", "var", "var", "var", "sum", "sum", "difference", "mul", "div", "mod"
        )
        if depth == 0 or kind in ("int", "var"):
            if kind == "int" or not scope.iterators:
                return Int(self.number(0, 3))
            return CVar(self.pick(*scope.iterators))
        term = self.index(scope, depth - 1)
        match kind:
            case "sum":
                return Add(term, self.index(scope, depth - 1))
            case "difference":
                return Sub(term, self.index(scope, depth - 1))
            case "mul":
                return Mul(self.number(-2, 4), term)
            case "div":
                return FloorDiv(term, self.pick(2, 2, 3, 4))
            case _:
                return Mod(term, self.pick(2, 2, 3, 4))

    def inside(self, scope: Scope, extent: int) -> CExpr:
        """An index that is nearly always in range: as it is where it fits, else mod the extent."""
        chosen = self.affine(scope) if self.number(0, 3) else self.index(scope)
        low, high = self.bounds(scope, chosen)
        if (low >= 0 and high < extent) or extent < 1 or self.number(0, 40) == 0:
            return chosen
        return Mod(chosen, extent)

    def affine(self, scope: Scope) -> CExpr:
        """What index arithmetic of kernels looks like: `i`, `4 * i + j`, `i / 4`, `i + 2`."""
        if not scope.iterators:
            return Int(self.number(0, 3))
        i, j = (CVar(self.pick(*scope.iterators)) for _ in range(2))
        match self.pick("i", "i", "i", "tile", "tile", "shift", "div", "mod", "back"):
            case "i":
                return i
            case "tile":
                return Add(Mul(self.pick(1, 2, 4), i), j)
            case "shift":
                return Add(i, Int(self.number(0, 2)))
            case "div":
                return FloorDiv(i, self.pick(2, 4))
            case "mod":
                return Mod(i, self.pick(2, 4))
            case _:
                return Sub(Int(self.pick(3, 7)), i)

    def bounds(self, scope: Scope, expr: CExpr) -> tuple[int, int]:
        ranges = dict.fromkeys(scope.iterators, Range(0, 7))
        ranges.update(scope.ranges)
        values = {name: variable(name) for name in scope.iterators}
        return interval(from_cexpr(expr, values, ranges), ranges)

    def condition(self, scope: Scope, depth: int = 1) -> BExpr:
        kind = self.pick("compare", "compare", "and", "or", "not") if depth else "compare"
        match kind:
            case "compare":
                op = self.pick("==", "==", "!=", "<", "<=", ">", ">=")
                return Compare(op, self.index(scope, 1), self.index(scope, 1))
            case "and":
                return And(self.condition(scope, depth - 1), self.condition(scope, depth - 1))
            case "or":
                return Or(self.condition(scope, depth - 1), self.condition(scope, depth - 1))
            case _:
                return Not(self.condition(scope, depth - 1))

    # --- data -----------------------------------------------------------------------------

    def element(self, scope: Scope, known: Known) -> Access:
        return Access(known.name, tuple(Point(self.inside(scope, n)) for n in known.extents))

    def value(self, scope: Scope, integer: bool, depth: int = 2) -> DExpr:
        fitting = [k for k in scope.data if not integer or k.dtype in INTEGERS]
        kind = self.pick("read", "read", "constant", "product", "product", "+", "apply", "select")
        if depth == 0 or kind in ("read", "constant"):
            if kind == "constant" or not fitting:
                return Const(self.number(-2, 2))
            return Read(self.element(scope, self.pick(*fitting)))
        terms = [self.value(scope, integer, depth - 1) for _ in range(4 if kind == "select" else 2)]
        match kind:
            case "product":
                return BinOp("*", *terms)
            case "+":
                return BinOp(self.pick("+", "-"), *terms)
            case "apply":
                return Apply(self.pick("min", "max"), tuple(terms))
            case _:
                return Apply("select", tuple(terms))

    def clamped(self, scope: Scope, integer: bool) -> DExpr:
        low = Apply("max", (self.value(scope, integer), Const(-9)))
        return Apply("min", (low, Const(9)))

    # --- statements -----------------------------------------------------------------------

    def block(self, scope: Scope) -> Block:
        outer = list(scope.data)
        stmts = [self.statement(scope) for _ in range(self.number(1, 3))]
        scope.data[:] = outer
        return tuple(stmts)

    def statement(self, scope: Scope) -> Stmt:
        if scope.depth == 4:
            return self.loop(scope)
        kinds = ["assign", "assign", "reduce", "reduce", "alloc", "window"]
        if scope.depth:
            kinds += ["for"] * 5 + ["if"] * 3 + ["call"] * scope.calls
        match self.pick(*kinds):
            case "for":
                return self.loop(scope)
            case "if":
                inner = replace(scope, depth=scope.depth - 1)
                orelse = self.block(inner) if self.pick(True, False) else ()
                return If(self.condition(scope), self.block(inner), orelse)
            case "call":
                return self.call(scope)
            case "alloc":
                return self.alloc(scope)
            case "window":
                return self.window(scope)
            case "assign":
                target = self.pick(*scope.data)
                value = self.clamped(scope, target.dtype in INTEGERS)
                return Assign(self.element(scope, target), value)
            case _:
                target = self.pick(*scope.data)
                value = self.clamped(scope, target.dtype in INTEGERS)
                return Reduce(self.element(scope, target), value)

    def loop(self, scope: Scope) -> For:
        iterator = Sym("ijklmnop"[len(scope.iterators) % 8])
        lo: CExpr = Int(self.pick(0, 0, 0, 1))
        hi: CExpr = Int(self.pick(0, 1, 2, 3, 3, 4, 4, 4, 8))
        if self.number(0, 5) == 0:  # a triangle, when the bound follows an outer iterator
            lo = Mod(self.index(scope, 1), 3)
        if self.number(0, 5) == 0:
            hi = Mod(self.index(scope, 1), 5)
        mode = self.pick(Seq(), CudaTasks(), CudaThreads(cuda_thread))
        first = lo.value if isinstance(lo, Int) else 0
        last = hi.value - 1 if isinstance(hi, Int) else 3
        ranges = {**scope.ranges, iterator: Range(first, max(first, last))}
        iterators = [*scope.iterators, iterator]
        inner = replace(scope, iterators=iterators, depth=scope.depth - 1, ranges=ranges)
        return For(iterator, lo, hi, mode, self.block(inner))

    def alloc(self, scope: Scope) -> Alloc:
        rank = self.number(0, 2)
        extents = tuple(self.pick(2, 3, 8) for _ in range(rank))
        known = Known(Sym("tmp"), self.pick(F32, F32, I32, BF16), extents)
        shape: tuple[CExpr, ...] = tuple(Int(n) for n in extents)
        if scope.iterators and rank and self.number(0, 3) == 0:
            shape = (Add(Int(extents[0]), CVar(self.pick(*scope.iterators))), *shape[1:])
        scope.data.append(known)
        return Alloc(known.name, known.dtype, shape, DRAM)

    def window(self, scope: Scope) -> Stmt:
        source = self.pick(*scope.data)
        access, extents = self.windowed(scope, source)
        name = Sym("win")
        scope.data.append(Known(name, source.dtype, extents))
        return WindowStmt(name, access, None)

    def windowed(self, scope: Scope, source: Known) -> tuple[Access, tuple[int, ...]]:
        coords, extents = [], []
        for n in source.extents:
            if self.pick(True, True, False):
                length = self.number(1, max(1, n))
                slack = n - length
                lo = Mod(self.index(scope, 1), slack + 1) if slack else Int(0)
                if self.number(0, 12) == 0:
                    lo = self.index(scope, 1)
                coords.append(Interval(lo, Add(lo, Int(length))))
                extents.append(length)
            else:
                coords.append(Point(self.inside(scope, n)))
        return Access(source.name, tuple(coords)), tuple(extents)

    # --- calls ----------------------------------------------------------------------------

    def call(self, scope: Scope) -> Stmt:
        as_instr = self.pick(True, False)
        at = Sym("at")
        params: list[ControlParam | DataParam] = [ControlParam(at, "index")]
        arguments: list[Argument] = [self.index(scope, 1)]
        inside: list[Known] = []
        for name in ("p", "q", "r")[: self.number(1, 3)]:
            source = self.pick(*scope.data)
            access, extents = self.windowed(scope, source)
            known = Known(Sym(name), source.dtype, extents)
            operand = None
            if as_instr:
                operand = clipped(HOST) if self.pick(True, False) else HOST
            shape = tuple(Int(n) for n in extents)
            params.append(DataParam(known.name, known.dtype, shape, DRAM, operand))
            arguments.append(access)
            inside.append(known)
        body = self.block(Scope([], inside, min(scope.depth - 1, 2), False))
        if as_instr:
            instr = Instr("g", (), tuple(params), (), body, False, standalone_thread)
            return CallInstr(instr, tuple(arguments))
        return CallProc(Proc("callee", tuple(params), (), body), tuple(arguments))

    def proc(self) -> Proc:
        params = (
            DataParam(Sym("A"), F32, (Int(8), Int(8)), DRAM),
            DataParam(Sym("x"), F32, (Int(32),), DRAM),
            DataParam(Sym("s"), F32, (), DRAM),
            DataParam(Sym("n"), I32, (Int(16),), DRAM),
            DataParam(Sym("b"), self.pick(BF16, F16), (Int(16),), DRAM),
        )
        data = [Known(p.name, p.dtype, SHAPES[p.name.name]) for p in params]
        # Few variables, so that accesses meet.
        data = self.random.sample(data, self.number(1, 2))
        return Proc("random", params, (), self.block(Scope([], data, 4, True)))


def random_proc(seed: int) -> Proc:
    """A procedure over `A: f32[8, 8], x: f32[32], s: f32, n: i32[16], b: bf16 or f16 [16]`."""
    return Generator(seed).proc()


def arguments(proc: Proc, seed: int) -> dict[str, np.ndarray]:
    """Arrays of small integers for a random procedure."""
    generator = np.random.default_rng(seed)
    half = np.float16 if proc.params[-1].dtype is F16 else np.float32
    return {
        "A": generator.integers(-3, 4, (8, 8)).astype(np.float32),
        "x": generator.integers(-3, 4, 32).astype(np.float32),
        "s": generator.integers(-3, 4, ()).astype(np.float32),
        "n": generator.integers(-3, 4, 16).astype(np.int32),
        # Near the end of bf16's and f16's exact integers, where each step rounds.
        "b": (generator.integers(-3, 4, 16) * (32 if half is np.float32 else 512)).astype(half),
    }
