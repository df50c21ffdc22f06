"""The sequential meaning of a procedure, one element at a time: slow, and plain to see.

The oracle of `exogpu.interpreter`, with which it shares the arithmetic of values and the
checks of arguments only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import assert_never

import numpy as np

from exogpu.analysis.barriers import first_home
from exogpu.diagnostics.errors import Diagnostic, ExoGpuError, Span
from exogpu.interpreter.arguments import bind
from exogpu.interpreter.functions import apply
from exogpu.interpreter.values import NUMPY, Array, poison, stored
from exogpu.ir import nodes as ir
from exogpu.ir import scalars
from exogpu.ir.types import DataType, Sym
from exogpu.ir.walk import evaluate, holds


@dataclass(frozen=True, slots=True)
class Alias:
    """A window: for each dimension of the source a start, and whether it is an interval."""

    source: Variable
    coords: tuple[tuple[int, bool], ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A data variable of the given extents: an array, or a window of another variable."""

    name: str
    dtype: DataType
    extents: tuple[int, ...]
    of: Array | Alias
    clipped: bool = False


@dataclass(frozen=True, slots=True)
class Env:
    control: dict[Sym, int]
    data: dict[Sym, Variable | scalars.Constant]
    arrived: dict[Sym, int] = field(default_factory=dict)
    """On the first element of each barrier."""


def run(proc: ir.Proc, arguments: Mapping[str, object]) -> None:
    """As `sequential.run`, for small arrays; `bf16` arrays must be float32."""
    bound = bind(proc, arguments)
    data: dict[Sym, Variable | scalars.Constant] = {}
    for param in proc.params:
        if not isinstance(param, ir.ControlParam):
            array = bound.arrays[param.name]
            data[param.name] = Variable(param.name.name, param.dtype, array.shape, array)
    with np.errstate(all="ignore"):
        _block(proc.body, Env(dict(bound.sizes), data))


def _block(block: ir.Block, env: Env) -> None:
    for stmt in block:
        _step(stmt, env)


def _step(stmt: ir.Stmt, env: Env) -> None:
    match stmt:
        case ir.For(mode=ir.Slot(barrier)):
            env.control[stmt.iterator] = env.arrived[barrier] % evaluate(stmt.hi, env.control)
            _block(stmt.body, env)
        case ir.For(mode=ir.Loaded(loaded)):
            value = int(_read_element(env.data[loaded.name], loaded, env))
            if not evaluate(stmt.lo, env.control) <= value < evaluate(stmt.hi, env.control):
                raise _error("X932", "a value from memory is not in its range", stmt.span)
            env.control[stmt.iterator] = value
            _block(stmt.body, env)
        case ir.For():
            for value in range(evaluate(stmt.lo, env.control), evaluate(stmt.hi, env.control)):
                env.control[stmt.iterator] = value
                _block(stmt.body, env)
        case ir.If():
            _block(stmt.body if holds(stmt.condition, env.control) else stmt.orelse, env)
        case ir.DeviceFunction() | ir.Warps():
            _block(stmt.body, env)
        case ir.CallProc() | ir.CallInstr():
            _call(stmt, env)
        case ir.Assign() | ir.Reduce():
            _store(stmt, env)
        case ir.WindowStmt():
            source = env.data.get(stmt.source.name)
            if isinstance(source, Variable):
                env.data[stmt.name] = _window(stmt.name.name, stmt.source, source, env)
        case ir.Alloc():
            shape = tuple(evaluate(e, env.control) for e in stmt.shape)
            array = np.full(shape, poison(stmt.dtype), NUMPY[stmt.dtype])
            env.data[stmt.name] = Variable(stmt.name.name, stmt.dtype, shape, array)
        case ir.BarrierAlloc():
            env.arrived[stmt.name] = 0
        case ir.Arrive():
            _arrive(stmt, env)
        case ir.Free() | ir.Fence() | ir.Await() | ir.Uninit() | ir.Pass():
            pass
        case _:
            assert_never(stmt)


def _arrive(stmt: ir.Arrive, env: Env) -> None:
    home = first_home(stmt.targets)
    at = (c.at if isinstance(c, ir.Point) else c.lo for c in home.coords)
    if all(evaluate(index, env.control) == 0 for index in at):
        env.arrived[home.name] += 1


def _call(stmt: ir.CallProc | ir.CallInstr, env: Env) -> None:
    callee = stmt.proc if isinstance(stmt, ir.CallProc) else stmt.instr
    inner = Env({}, {})
    for param, argument in zip(callee.params, stmt.arguments, strict=True):
        if isinstance(param, ir.ControlParam):
            assert not isinstance(argument, ir.Access | ir.Const)
            inner.control[param.name] = evaluate(argument, env.control)
    for param, argument in zip(callee.params, stmt.arguments, strict=True):
        if isinstance(param, ir.ControlParam):
            continue
        meaning = env.data[argument.name] if isinstance(argument, ir.Access) else argument
        if isinstance(argument, ir.Access) and isinstance(meaning, Variable):
            window = _window(param.name.name, argument, meaning, env)
            extents = tuple(evaluate(e, inner.control) for e in param.shape)
            if extents != window.extents:
                raise _error("X928", "a window has the wrong extents", stmt.span)
            if isinstance(stmt, ir.CallProc):
                for index in product(*map(range, extents)):
                    _element(window, index, stmt.span)
            clipped = param.operand is not None and param.operand.clipped
            meaning = Variable(param.name.name, param.dtype, extents, window.of, clipped)
        if isinstance(meaning, ir.Const):
            meaning = scalars.Constant(scalars.rounded(meaning.value, param.dtype), param.dtype)
        assert isinstance(meaning, Variable | scalars.Constant)
        inner.data[param.name] = meaning
    if not all(holds(condition, inner.control) for condition in callee.preconditions):
        raise _error("X928", "a precondition does not hold", stmt.span)
    _block(callee.body, inner)


def _store(stmt: ir.Assign | ir.Reduce, env: Env) -> None:
    target = env.data[stmt.target.name]
    assert isinstance(target, Variable)
    meaning = scalars.added_scalar if isinstance(stmt, ir.Reduce) else scalars.assigned_scalar

    def type_of(name: Sym) -> DataType:
        return env.data[name].dtype

    typed = meaning(stmt.value, target.dtype, type_of)
    place = _element(target, _index(stmt.target, env), stmt.span)
    value = _value(typed, env)
    if place is None:
        return
    array, index = place
    if isinstance(stmt, ir.Reduce):
        value = apply("+", (array[index].astype(value.dtype), value))
    elif scalars.is_of_type(typed, target.dtype, type_of):
        array[index] = value
        return
    array[index] = stored(value, target.dtype)


def _value(scalar: scalars.Scalar, env: Env) -> Array:
    """The value, as an array of rank 0."""
    match scalar:
        case scalars.Constant():
            value = np.array(scalar.value)
        case scalars.Element():
            value = _read_element(env.data[scalar.access.name], scalar.access, env)
        case scalars.Convert():
            value = _value(scalar.term, env)
        case scalars.Operation():
            value = apply(scalar.function, [_value(a, env) for a in scalar.arguments])
        case _:
            assert_never(scalar)
    return np.asarray(value).astype(NUMPY[scalar.dtype])


def _read_element(meaning: Variable | scalars.Constant, access: ir.Access, env: Env) -> Array:
    if isinstance(meaning, scalars.Constant):
        return np.array(meaning.value)
    place = _element(meaning, _index(access, env), access.span)
    if place is None:
        return np.zeros((), NUMPY[meaning.dtype])
    array, index = place
    return np.asarray(array[index])


def _index(access: ir.Access, env: Env) -> tuple[int, ...]:
    return tuple(evaluate(c.at, env.control) for c in access.coords if isinstance(c, ir.Point))


def _window(name: str, access: ir.Access, source: Variable, env: Env) -> Variable:
    coords: list[tuple[int, bool]] = []
    extents: list[int] = []
    for coord in access.coords:
        match coord:
            case ir.Point():
                coords.append((evaluate(coord.at, env.control), False))
            case ir.Interval():
                lo, hi = evaluate(coord.lo, env.control), evaluate(coord.hi, env.control)
                coords.append((lo, True))
                extents.append(hi - lo)
            case _:
                assert_never(coord)
    return Variable(name, source.dtype, tuple(extents), Alias(source, tuple(coords)))


def _element(
    variable: Variable, index: tuple[int, ...], span: Span, *, clipped: bool = False
) -> tuple[Array, tuple[int, ...]] | None:
    """The array element that an index denotes; None if it is outside, below a clipped operand."""
    for at, extent in zip(index, variable.extents, strict=True):
        if not 0 <= at < extent:
            if clipped:
                return None
            raise _error("X927", f"index {at} of {variable.name} is out of range", span)
    if not isinstance(variable.of, Alias):
        return variable.of, index
    free = iter(index)
    below = tuple(
        start + next(free) if is_interval else start for start, is_interval in variable.of.coords
    )
    return _element(variable.of.source, below, span, clipped=clipped or variable.clipped)


def _error(code: str, message: str, span: Span) -> ExoGpuError:
    return ExoGpuError((Diagnostic(code, message, span, "see exogpu.interpreter"),))
