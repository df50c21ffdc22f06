"""Which instance of a Record a violation is about: iteration and task of the earlier access.

The fast interpreter's records do not remember their iteration.  So a violation that was found is
found once more by the literal rules, in a slice of the program: one element of one variable, and
if the variable belongs to a task only that task, with all synchronisation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final, assert_never

from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, CExpr, Coord, CVar, Int, Interval, Point, Sub
from exogpu.ir.walk import evaluate
from exogpu.machine import literal
from exogpu.machine.amir import (
    Alloc,
    Arrive,
    Await,
    Block,
    Check,
    CheckBarrier,
    Clear,
    Fence,
    Guard,
    IncTaskID,
    Loop,
    Op,
    Program,
    Record,
    Release,
)
from exogpu.machine.fast.machine import Spent
from exogpu.machine.violation import Violation

AFFORDABLE: Final = 100_000
"""Steps up to which the slice is run: a second or two."""


def with_record(
    program: Program,
    sizes: Mapping[str, int],
    violation: Violation,
    spent: Spent,
) -> Violation:
    """The violation with iteration and task of its record, if that costs no more than seconds."""
    if violation.record is None:
        return violation
    slicer = _Slicer(program, violation)
    piece = slicer.program()
    sigma = {parameter.name: sizes[parameter.name.name] for parameter in program.params}
    if _steps(piece.body, sigma) > AFFORDABLE:
        return violation
    for found in literal.run(piece, sizes, collect=True):
        same = (found.kind, found.iteration) == (violation.kind, violation.iteration)
        ops = (slicer.origin_of(found.check), slicer.origin_of(found.record))
        if same and ops == (violation.check, violation.record):
            # The slice of a local variable has but one task, and calls it the first.
            known = found.record_task is None or not slicer.local
            return replace(
                violation,
                record_iteration=found.record_iteration,
                record_task=found.record_task if known else spent.task,
            )
    return violation


class _Slicer:
    """The slice of a program that a violation is about."""

    def __init__(self, program: Program, violation: Violation) -> None:
        self._program = program
        self._violation = violation
        self._path = _path(program.body, violation.check)
        self._originals: dict[Op, Op] = {}
        check = violation.check
        self._name = check.access.name if isinstance(check, Check) else None
        self._element = Sym(violation.variable)
        name = check.access.name if isinstance(check, Check) else _barrier_of(check)
        self.local = _local(program.body, name)
        """Whether the variable belongs to a task."""
        values = [value for _, value in violation.iteration]
        around = list(zip(self._path, values, strict=True))
        self._only = {loop: value for loop, value in around if self.local and _begins(loop.body)}
        """The one iteration to run of the loops over tasks."""
        self._until = dict([pair for pair in around if pair[0] not in self._only][:1])
        """The last iteration to run of the outermost loop otherwise."""

    def origin_of(self, op: Op | None) -> Op | None:
        """The operation of the program that one of the slice stands for."""
        return None if op is None else self._originals.get(op, op)

    def program(self) -> Program:
        """The slice."""
        variables = self._program.variables
        if self._name is not None:
            (whole,) = (v for v in variables if v.name == self._name)
            single = tuple(Int(1) for _ in whole.shape)
            element = replace(whole, name=self._element, shape=single, mechanism=None)
            variables = (*variables, element)
        body = self._block(self._program.body)
        return replace(self._program, variables=variables, body=body)

    def _block(self, block: Block) -> Block:
        return tuple(new for op in block for new in self._op(op))

    def _op(self, op: Op) -> Block:
        match op:
            case Loop():
                lo, hi = op.lo, op.hi
                if op in self._only:
                    lo, hi = Int(self._only[op]), Int(self._only[op] + 1)
                elif op in self._until:
                    hi = Int(self._until[op] + 1)
                elif (only := self._touching(op)) is not None:
                    lo, hi = only
                body = self._block(op.body)
                return (replace(op, lo=lo, hi=hi, body=body),) if body else ()
            case Guard():
                body = self._block(op.body)
                return (replace(op, body=body),) if body else ()
            case Alloc() | Release():
                own = (replace(op, name=self._element),) if op.name == self._name else ()
                return (op, *own)
            case Record() | Check() | Clear():
                return self._access(op)
            case IncTaskID() | Fence() | Arrive() | Await():
                return (op,)
            case CheckBarrier():
                return (op,) if op is self._violation.check else ()
            case _:
                assert_never(op)

    def _touching(self, loop: Loop) -> tuple[Int, Int] | None:
        """The iterations of a loop of constant bounds that touch the element, where nothing else
        happens in it and every access names the iterator as a coordinate."""
        if not (isinstance(loop.lo, Int) and isinstance(loop.hi, Int)):
            return None
        touched: set[int] = set()
        for op in _inside(loop.body):
            if not isinstance(op, Record | Check | Clear) or _trailing(op):
                return None
            if op.access.name != self._name:
                continue
            at = [
                index
                for coord, index in zip(op.access.coords, self._violation.index, strict=True)
                if isinstance(coord, Point) and coord.at == CVar(loop.iterator)
            ]
            if not at:
                return None
            touched.update(at)
        inside = [value for value in touched if loop.lo.value <= value < loop.hi.value]
        if not inside:
            return None
        return Int(min(inside)), Int(max(inside) + 1)

    def _access(self, op: Record | Check | Clear) -> Block:
        if op.access.name == self._name:
            new = replace(op, access=self._at_element(op.access))
        elif isinstance(op, Record) and op.trailing is not None:
            new = op
        else:
            return ()
        self._originals[new] = op
        return (new,)

    def _at_element(self, access: Access) -> Access:
        """The window, as far as it is the one element: it becomes element 0 of a variable of one
        element, and decision 13 drops the others."""
        coords = tuple(
            _less(coord, at) for coord, at in zip(access.coords, self._violation.index, strict=True)
        )
        return Access(self._element, coords)


def _inside(block: Block) -> Iterator[Op]:
    """The operations of a block, but for loops and guards."""
    for op in block:
        if isinstance(op, Loop | Guard):
            yield from _inside(op.body)
        else:
            yield op


def _trailing(op: Op) -> bool:
    return isinstance(op, Record) and op.trailing is not None


def _steps(block: Block, sigma: Mapping[Sym, int]) -> int:
    """How many operations a block stands for; a loop's iterations count as its first does."""
    total = 0
    for op in block:
        match op:
            case Loop():
                lo, hi = evaluate(op.lo, sigma), evaluate(op.hi, sigma)
                total += max(0, hi - lo) * _steps(op.body, {**sigma, op.iterator: lo})
            case Guard():
                total += _steps(op.body, sigma)
            case _:
                total += 1
    return total


def _less(coord: Coord, by: int) -> Coord:
    lower: Callable[[CExpr], CExpr] = lambda c: Sub(c, Int(by))  # noqa: E731
    match coord:
        case Point():
            return Point(lower(coord.at))
        case Interval():
            return Interval(lower(coord.lo), lower(coord.hi))
        case _:
            assert_never(coord)


def _path(block: Block, check: Op) -> list[Loop]:
    """The loops around an operation, outermost first."""
    for op in block:
        if op is check:
            return []
        if isinstance(op, Loop | Guard) and (op is check or _contains(op.body, check)):
            inner = _path(op.body, check)
            return [op, *inner] if isinstance(op, Loop) else inner
    return []


def _contains(block: Block, check: Op) -> bool:
    return any(
        op is check or (isinstance(op, Loop | Guard) and _contains(op.body, check)) for op in block
    )


def _begins(block: Block) -> bool:
    return any(
        isinstance(op, IncTaskID) or (isinstance(op, Loop | Guard) and _begins(op.body))
        for op in block
    )


def _local(block: Block, name: Sym | None) -> bool:
    """Whether every allocation of the variable is in a task."""
    allocated = False
    for op in block:
        if isinstance(op, IncTaskID):
            return any(isinstance(o, Alloc) and o.name == name for o in block)
        if isinstance(op, Alloc) and op.name == name:
            return False
        if isinstance(op, Loop | Guard):
            allocated = allocated or _local(op.body, name)
    return allocated


def _barrier_of(op: Op) -> Sym | None:
    match op:
        case Arrive():
            return op.home.name
        case Await():
            return op.barrier.name
        case CheckBarrier():
            return op.name
        case Record():
            return None if op.trailing is None else op.trailing.home.name
        case Loop() | Guard() | IncTaskID() | Alloc() | Release() | Check() | Clear() | Fence():
            return None
        case _:
            assert_never(op)
