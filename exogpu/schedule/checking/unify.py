"""Unification: with which arguments statements are the body of an instruction or procedure.

    for ii in seq(0, 16):                     for m in seq(0, 16):
        for ji in seq(0, 8):                      for n in seq(0, 8):
            if 16 * io + ii < M:                      if m < rows and n < cols:
                C[16 * io + ii, ji] = D[ii, ji]           C[m, n] = D[m, n]

        rows = M - 16 * io, cols = 8, C = C[16 * io : 16 * io + 16, 0:8], D = D[0:16, 0:8]

What it finds is a proposal: the checker decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from exogpu.ir import nodes as ir
from exogpu.ir import walk as ir_walk
from exogpu.ir.types import DataType, Sym
from exogpu.ir.walk import accesses, control_variables, substitute, substitute_access, walk
from exogpu.schedule import call_operands, reparse
from exogpu.schedule.index_text import constant, linear, minus, plus, sum_expression, tidy
from exogpu.schedule.reparse import names_in


@dataclass(frozen=True, slots=True)
class Same:
    """A statement of the program that is one of the body, at these values of its iterators."""

    body: ir.Stmt
    program: ir.Stmt
    at: dict[Sym, ir.CExpr]
    reads: tuple[int, ...] | None
    """The number of the program's read for each one, where sides are exchanged."""


@dataclass(frozen=True, slots=True)
class Unified:
    """The arguments of a call, and which statements are which of its body."""

    arguments: tuple[ir.Argument, ...]
    same: tuple[Same, ...]


EXCHANGED: Final = 3
"""Sums and products of which both orders are tried."""


def unified(proc: ir.Proc, stmts: ir.Block, callee: ir.Proc | ir.Instr) -> Unified:
    """The arguments with which statements of a procedure are a call.  Raises Mismatch."""
    mismatch: call_operands.Mismatch | None = None
    for exchanged in range(1 << EXCHANGED):
        params = {p.name: p for p in callee.params}
        search = _Search(callee, params, reparse.dtypes(proc), reparse.extents(proc), {})
        search.exchanged = exchanged
        try:
            return _unify_blocks(search, stmts)
        except call_operands.Mismatch as found:
            mismatch = mismatch or found
        if exchanged + 1 >= 1 << search.commuting:
            break
    assert mismatch is not None
    raise mismatch


def _unify_blocks(search: _Search, stmts: ir.Block) -> Unified:
    # The program's own variables are renamed: it may be made of this very body.
    outer = sorted(_control(stmts), key=lambda s: s.number)
    back: dict[Sym, ir.CExpr] = {}
    for name in outer:
        other = Sym(name.name)
        search.at[name], back[other] = ir.CVar(other), ir.CVar(name)
    search.blocks(stmts, search.callee.body)
    return search.solved(stmts[0], back)


@dataclass(slots=True)
class _Equation:
    program: ir.CExpr
    body: ir.CExpr
    why: tuple[ir.Stmt, ir.Stmt, str]


@dataclass(slots=True)
class _Search:
    callee: ir.Proc | ir.Instr
    params: dict[Sym, ir.ControlParam | ir.DataParam]
    dtypes: Mapping[Sym, DataType]
    """The types of the program's variables."""
    extents: Mapping[Sym, tuple[ir.CExpr, ...]]
    at: dict[Sym, ir.CExpr]
    """The program's control variables, by the iterators of the body."""
    loops: list[Sym] = field(default_factory=list)
    """The program's iterators so far."""
    ranges: dict[Sym, tuple[ir.CExpr, ir.CExpr]] = field(default_factory=dict)
    """The ranges of the iterators of the body, in terms of its parameters."""
    once: dict[Sym, ir.CExpr] = field(default_factory=dict)
    """Iterators of the body that have one value."""
    control: dict[Sym, ir.CExpr] = field(default_factory=dict)
    equations: list[_Equation] = field(default_factory=list)
    guards: list[
        tuple[list[call_operands.Guard], list[call_operands.Guard], tuple[ir.Stmt, ir.Stmt]]
    ] = field(default_factory=list)
    seen: dict[Sym, list[call_operands.Seen]] = field(default_factory=dict)
    variables: dict[Sym, Sym] = field(default_factory=dict)
    """The program's variables, by those that the body declares."""
    same: list[Same] = field(default_factory=list)
    exchanged: int = 0
    """A bit for each sum or product of the body: its sides are exchanged."""
    commuting: int = 0
    """Sums and products so far."""

    # --- statements -----------------------------------------------------------------------

    def blocks(self, program: ir.Block, body: ir.Block) -> None:
        mine, its = call_operands.real(program), call_operands.real(body)
        for one, other in zip(mine, its, strict=False):
            self.nests(one, other)
        if len(mine) > len(its):
            raise call_operands.Mismatch(mine[len(its)], None, "the body ends before it")
        if len(mine) < len(its):
            raise call_operands.Mismatch(
                None, its[len(mine)], "the program has no statement for it"
            )

    def nests(self, program: ir.Stmt, body: ir.Stmt) -> None:
        """Loops and guards around one another, then what is in them."""
        mine, its = call_operands.nest_of(program), call_operands.nest_of(body)
        loops, others = list(mine.loops), list(its.loops)
        if len(loops) != len(others):
            loops = [loop for loop in loops if not self.passed_once(loop, self.at)]
            others = [loop for loop in others if not self.passed_once(loop, self.once)]
        for one, other in zip(loops, others, strict=False):
            self.loop(one, other)
        if len(loops) > len(others):
            raise call_operands.Mismatch(
                loops[len(others)], _first_statement(its.inner), "the body has no such loop"
            )
        if len(loops) < len(others):
            raise call_operands.Mismatch(
                _first_statement(mine.inner), others[len(loops)], "the program has no such loop"
            )
        self.match_guards(mine.guards, its.guards, (program, body))
        if len(mine.inner) == len(its.inner) == 1:
            self.core(mine.inner[0], its.inner[0])
        else:
            self.blocks(mine.inner, its.inner)

    def match_guards(
        self, mine: Sequence[ir.If], its: Sequence[ir.If], both: tuple[ir.Stmt, ir.Stmt]
    ) -> None:
        """Note guards that are to be the same."""
        ours = [call_operands.guards_of(guard.condition, self.at) for guard in mine]
        theirs = [call_operands.guards_of(guard.condition, self.once) for guard in its]
        for guard, found in zip((*mine, *its), (*ours, *theirs), strict=True):
            if found is None:
                one, other = (guard, both[1]) if guard in mine else (both[0], guard)
                raise call_operands.Mismatch(
                    one, other, "the condition is no conjunction of comparisons"
                )
        flat = [[g for found in side for g in found or ()] for side in (ours, theirs)]
        places = (mine[0] if mine else both[0], its[0] if its else both[1])
        self.guards.append((flat[0], flat[1], places))

    def passed_once(self, loop: ir.For, values: dict[Sym, ir.CExpr]) -> bool:
        """Tests whether a loop has one iteration, which is then noted."""
        if minus(loop.hi, loop.lo) != ir.Int(1):
            return False
        values[loop.iterator] = substitute(loop.lo, values)
        if values is self.at:
            self.loops.append(loop.iterator)
        return True

    def loop(self, program: ir.For, body: ir.For) -> None:
        lo, hi = (substitute(e, self.at) for e in (program.lo, program.hi))
        low, high = (substitute(e, self.once) for e in (body.lo, body.hi))
        if control_variables(low) & self.params.keys():
            raise call_operands.Mismatch(
                program, body, "the loop of the body begins at a parameter"
            )
        self.loops.append(program.iterator)
        self.at[program.iterator] = plus(ir.CVar(body.iterator), minus(lo, low))
        self.ranges[body.iterator] = (low, high)
        why = (program, body, "the loops have different counts")
        counts = [constant(minus(hi, lo)), constant(minus(high, low))]
        if None not in counts and counts[0] != counts[1]:
            raise call_operands.Mismatch(*why)
        self.equations.append(_Equation(minus(hi, lo), minus(high, low), why))

    def core(self, program: ir.Stmt, body: ir.Stmt) -> None:
        match program, body:
            case ir.If(), ir.If():
                self.match_guards((program,), (body,), (program, body))
                self.blocks(program.body, body.body)
                self.blocks(program.orelse, body.orelse)
            case _, ir.If():  # a guard that always holds
                self.match_guards((), (body,), (program, body))
                self.blocks((program,), body.body)
            case ir.Assign(), ir.Assign():
                self.assignment(program, body)
            case ir.Reduce(), ir.Reduce():
                self.assignment(program, body)
            case ir.CallInstr() | ir.CallProc(), ir.CallInstr() | ir.CallProc():
                self.call(program, body)
            case ir.Alloc(), ir.Alloc():
                if (program.dtype, program.memory) != (body.dtype, body.memory):
                    raise call_operands.Mismatch(
                        program, body, "the variables differ in type or memory"
                    )
                if len(program.shape) != len(body.shape):
                    raise call_operands.Mismatch(
                        program, body, "the variables have different shapes"
                    )
                self.variables[body.name] = program.name
                for mine, its in zip(program.shape, body.shape, strict=True):
                    self.equal(mine, its, program, body, "the variables have different shapes")
            case _ if type(program) is type(body):
                raise call_operands.Mismatch(program, body, "such statements are not unified")
            case _:
                raise call_operands.Mismatch(
                    program, body, "they are statements of different kinds"
                )

    def assignment(self, program: ir.Assign | ir.Reduce, body: ir.Assign | ir.Reduce) -> None:
        self.access(program.target, body.target, program, body)
        order = self.value(program.value, body.value, (program, body), 0)
        self.is_same(program, body, None if order == sorted(order) else tuple(order))

    def is_same(
        self, program: ir.Stmt, body: ir.Stmt, order: tuple[int, ...] | None = None
    ) -> None:
        self.same.append(Same(body, program, {s: self.at[s] for s in self.loops}, order))

    def call(self, program: ir.CallInstr | ir.CallProc, body: ir.CallInstr | ir.CallProc) -> None:
        mine = program.instr if isinstance(program, ir.CallInstr) else program.proc
        its = body.instr if isinstance(body, ir.CallInstr) else body.proc
        if mine is not its:
            raise call_operands.Mismatch(program, body, f"{mine.name} is not {its.name}")
        for one, other in zip(program.arguments, body.arguments, strict=True):
            match one, other:
                case ir.Access(), ir.Access():
                    self.access(one, other, program, body)
                case (ir.Const(), _) | (_, ir.Const()) | (ir.Access(), _) | (_, ir.Access()):
                    if one != other:
                        raise call_operands.Mismatch(program, body, "the arguments differ")
                case _:
                    self.equal(one, other, program, body, "the arguments differ")
        self.is_same(program, body)

    # --- expressions ----------------------------------------------------------------------

    def equal(
        self, mine: ir.CExpr, its: ir.CExpr, program: ir.Stmt, body: ir.Stmt, why: str
    ) -> None:
        one, other = substitute(mine, self.at), substitute(its, self.once)
        self.equations.append(_Equation(one, other, (program, body, why)))

    def value(
        self, mine: ir.DExpr, its: ir.DExpr, both: tuple[ir.Stmt, ir.Stmt], before: int
    ) -> list[int]:
        """The numbers of the program's reads, `before` of which come first, in the body's order."""
        match mine, its:
            case ir.Const(), ir.Const():
                if type(mine.value) is not type(its.value) or mine != its:
                    raise call_operands.Mismatch(*both, f"{mine.value} is not {its.value}")
                return []
            case ir.Const(), ir.Read():
                raise call_operands.Mismatch(
                    *both, f"{mine.value} is no variable: keep it in one first"
                )
            case ir.Read(), ir.Read():
                self.access(mine.access, its.access, *both)
                return [before]
            case ir.BinOp(), ir.BinOp() if mine.op == its.op:
                after = before + len(list(ir_walk.reads(mine.left)))
                if mine.op in ("+", "*") and self.exchanges():
                    first = self.value(mine.right, its.left, both, after)
                    return [*first, *self.value(mine.left, its.right, both, before)]
                first = self.value(mine.left, its.left, both, before)
                return [*first, *self.value(mine.right, its.right, both, after)]
            case ir.Negate(), ir.Negate():
                return self.value(mine.term, its.term, both, before)
            case ir.Apply(), ir.Apply() if mine.function == its.function:
                found: list[int] = []
                for one, other in zip(mine.arguments, its.arguments, strict=True):
                    found += self.value(one, other, both, before)
                    before += len(list(ir_walk.reads(one)))
                return found
            case _:
                raise call_operands.Mismatch(*both, "the expressions have different forms")

    def exchanges(self) -> bool:
        """Tests whether the sides of the next sum or product are exchanged."""
        self.commuting += 1
        return bool(self.exchanged >> (self.commuting - 1) & 1)

    def access(self, mine: ir.Access, its: ir.Access, program: ir.Stmt, body: ir.Stmt) -> None:
        one = substitute_access(mine, self.at)
        other = substitute_access(its, self.once)
        if its.name in self.params:
            self.seen.setdefault(its.name, []).append(
                call_operands.Seen(one, other, (program, body))
            )
            return
        if self.variables.get(its.name) != mine.name:
            raise call_operands.Mismatch(
                program, body, f"{mine.name.name} is not {its.name.name} of the body"
            )
        why = (program, body, f"{mine.name.name} is used at another index")
        for here, there in zip(one.coords, other.coords, strict=True):
            if type(here) is not type(there):
                raise call_operands.Mismatch(*why)
            sides = zip(call_operands.bounds(here), call_operands.bounds(there), strict=True)
            self.equations += [_Equation(x, y, why) for x, y in sides]

    # --- solving --------------------------------------------------------------------------

    def solved(self, first: ir.Stmt, back: Mapping[Sym, ir.CExpr]) -> Unified:
        """The arguments, from all that was seen."""
        self.solve_equations()
        for ours, theirs, places in self.guards:
            self.solve_guards(ours, theirs, places)
        self.solve_equations()
        if any(
            isinstance(p, ir.ControlParam) and p.name not in self.control
            for p in self.callee.params
        ):
            self.take_whole()
            self.solve_equations()
        for equation in self.equations:
            if self.difference(equation) != ir.Int(0):
                raise call_operands.Mismatch(*equation.why)
        arguments = tuple(_put_back(self.argument(p, first), back) for p in self.callee.params)
        same = tuple(
            replace(one, at={s: substitute(e, back) for s, e in one.at.items()})
            for one in self.same
        )
        return Unified(arguments, same)

    def take_whole(self) -> None:
        """An operand that is as large as the variable, in its last dimensions, begins at 0."""
        for param in self.callee.params:
            if not isinstance(param, ir.DataParam):
                continue
            for one in self.seen.get(param.name, ()):
                rank = len(param.shape)
                if self.extents.get(one.program.name, ())[-rank:] != param.shape:
                    continue
                why = (*one.statements, f"{param.name.name} is all of {one.program.name.name}")
                for mine, its in zip(one.program.coords[-rank:], one.body.coords, strict=True):
                    if isinstance(mine, ir.Point) and isinstance(its, ir.Point):
                        self.equations.append(_Equation(mine.at, its.at, why))

    def difference(self, equation: _Equation) -> ir.CExpr:
        return minus(substitute(equation.body, self.control), equation.program)

    def solve_equations(self) -> None:
        """Control parameters that one equation gives, until nothing is new."""
        while any([self.solve(self.difference(e)) for e in self.equations]):
            pass

    def solve(self, zero: ir.CExpr) -> bool:
        """Tests whether a parameter follows from an expression being zero; it is then noted."""
        terms = linear(zero)
        open_ = {ir.CVar(name) for name, p in self.params.items() if isinstance(p, ir.ControlParam)}
        unknown = [atom for atom in terms if atom in open_]
        if len(unknown) != 1 or abs(factor := terms[unknown[0]]) != 1:
            return False
        rest = {atom: -factor * n for atom, n in terms.items() if atom != unknown[0]}
        value = sum_expression(rest)
        if control_variables(value) & (self.ranges.keys() | self.params.keys()):
            return False
        (name,) = control_variables(unknown[0])
        self.control[name] = value
        return True

    def solve_guards(
        self,
        ours: Sequence[call_operands.Guard],
        theirs: Sequence[call_operands.Guard],
        places: tuple[ir.Stmt, ir.Stmt],
    ) -> None:
        """Each guard of the program is one of the body; the others of the body always hold."""
        left = list(ours)
        rest: list[call_operands.Guard] = []
        for guard in theirs:
            for mine in left:
                if self.guard_is(mine, guard):
                    left.remove(mine)
                    break
            else:
                rest.append(guard)
        if left and not self.clips():
            raise call_operands.Mismatch(*places, "the body has no such guard")
        for guard in rest:
            at_worst = self.at_worst(guard)
            if guard.op != ">=" or at_worst is None or not self.solve(at_worst):
                raise call_operands.Mismatch(*places, "the program has no such guard")

    def clips(self) -> bool:
        """Tests whether the hardware keeps to the edges of an operand, so that guards do not."""
        data = [p for p in self.params.values() if isinstance(p, ir.DataParam)]
        return any(p.operand is not None and p.operand.clipped for p in data)

    def guard_is(self, mine: call_operands.Guard, its: call_operands.Guard) -> bool:
        if mine.op != its.op:
            return False
        zero = minus(substitute(its.value, self.control), mine.value)
        return zero == ir.Int(0) or self.solve(zero)

    def at_worst(self, guard: call_operands.Guard) -> ir.CExpr | None:
        """The least value of a guard's side over the iterators of the body."""
        value = substitute(guard.value, self.control)
        for name, (lo, hi) in reversed(self.ranges.items()):
            factor = linear(value).get(ir.CVar(name), 0)
            if factor:
                end = substitute(minus(hi, ir.Int(1)) if factor < 0 else lo, self.control)
                value = tidy(substitute(value, {name: end}))
        return None if control_variables(value) & self.ranges.keys() else value

    def argument(self, param: ir.ControlParam | ir.DataParam, first: ir.Stmt) -> ir.Argument:
        name = param.name.name
        if isinstance(param, ir.ControlParam):
            if param.name not in self.control:
                raise call_operands.Mismatch(first, None, f"nothing says what {name} is")
            return self.control[param.name]
        if param.name not in self.seen:
            raise call_operands.Mismatch(first, None, f"nothing says what {name} is")

        def substitute_known(expr: ir.CExpr) -> ir.CExpr:
            return substitute(expr, self.control)

        seen = self.seen[param.name]
        dtype = self.dtypes.get(seen[0].program.name)
        if dtype not in (None, param.dtype):
            why = f"{seen[0].program.name.name} is {dtype.value}, and {name} {param.dtype.value}"
            raise call_operands.Mismatch(*seen[0].statements, why)
        coords = call_operands.window_of(seen, param.shape, self.ranges.keys(), substitute_known)
        return ir.Access(seen[0].program.name, coords, first.span)


def _first_statement(block: ir.Block) -> ir.Stmt | None:
    return block[0] if block else None


def _control(block: ir.Block) -> frozenset[Sym]:
    """The control variables that statements name."""
    data = {access.name for stmt in walk(block) for access in accesses(stmt)}
    return names_in(block) - data


def _put_back(argument: ir.Argument, back: Mapping[Sym, ir.CExpr]) -> ir.Argument:
    match argument:
        case ir.Access():
            return substitute_access(argument, back)
        case ir.Const():
            return argument
        case _:
            return substitute(argument, back)
