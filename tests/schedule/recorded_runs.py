"""Records run statement by statement on rational numbers: what a certificate has to agree with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from random import Random

from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, evaluate, holds
from exogpu.symbolic.steps.record import Cell, Formula, Nth, Number, Program, Statement, Value

REACH = 9
"""Iterators lie below; where a program's do not, nothing is run."""

Memory = dict[tuple[str, tuple[int, ...]], Fraction]


class CannotRunError(Exception):
    """The program does nothing that could be compared: at these sizes, or ever."""


class OutsideError(Exception):
    """An element outside of its variable is accessed."""


def instances(statement: Statement, env: Mapping[Sym, int]) -> Iterator[dict[Sym, int]]:
    """Values of the iterators at which a statement is executed."""
    names = statement.iterators

    def further(at: dict[Sym, int], left: tuple[Sym, ...]) -> Iterator[dict[Sym, int]]:
        known = {*env, *at}
        for condition in statement.holds:
            if control_variables(condition) <= known and not holds(condition, {**env, **at}):
                return
        if not left:
            yield at
            return
        for value in range(-2, REACH):
            yield from further({**at, left[0]: value}, left[1:])

    yield from further({}, names)


def run(program: Program, sizes: Mapping[str, int], seed: int) -> Memory:
    """What is left in the parameters.  Raises CannotRunError, OutsideError."""
    env = {p.name: sizes[p.name.name] for p in program.params}
    if not all(holds(condition, env) for condition in program.preconditions):
        raise CannotRunError
    random = Random(seed)
    memory: Memory = {}
    for variable in sorted(program.variables, key=lambda v: v.name):
        if variable.is_param:
            for at in elements([evaluate(n, env) for n in variable.shape]):
                memory[variable.name, at] = Fraction(random.randint(-9, 9))
    depth = program.depth
    todo = []
    for number, statement in enumerate(program.statements):
        for at in instances(statement, env):
            if any(value >= REACH - 1 for value in at.values()):
                raise CannotRunError
            time = [evaluate(part, {**env, **at}) for part in statement.time]
            todo.append(((*time, *[0] * (depth - len(time))), number, at))
    todo.sort(key=lambda one: one[:2])
    garbage = Random(seed + 1)
    for _, number, at in todo:
        execute(program, program.statements[number], {**env, **at}, memory, garbage)
    return {key: value for key, value in memory.items() if program.by_name[key[0]].is_param}


def elements(shape: list[int]) -> Iterator[tuple[int, ...]]:
    if not shape:
        yield ()
        return
    for first in range(shape[0]):
        for rest in elements(shape[1:]):
            yield (first, *rest)


def execute(
    program: Program, statement: Statement, env: dict[Sym, int], memory: Memory, garbage: Random
) -> None:
    def key(cell: Cell) -> tuple[str, tuple[int, ...]] | None:
        if not all(holds(condition, env) for condition in cell.within):
            return None
        variable = program.by_name[cell.variable]
        at = tuple(evaluate(part, env) for part in cell.index)
        own = at[len(variable.loops) :]
        shape = [evaluate(n, env) for n in variable.shape]
        if not all(0 <= a < n for a, n in zip(own, shape, strict=True)):
            raise OutsideError
        return cell.variable, at

    def got(cell: Cell) -> Fraction:
        where = key(cell)
        if where is None:
            return Fraction(0)
        return memory.setdefault(where, Fraction(garbage.randint(1000, 9999), 7))

    given = [got(cell) for cell in statement.reads]
    value = computed(statement.value, given)
    where = key(statement.target)
    if where is None:
        return
    if statement.kind == "+=":
        value += memory.setdefault(where, Fraction(garbage.randint(1000, 9999), 7))
    memory[where] = value


def computed(value: Value, given: list[Fraction]) -> Fraction:
    match value:
        case Number():
            return Fraction(value.text)
        case Nth():
            return given[value.read]
        case Formula():
            terms = [computed(term, given) for term in value.terms]
    match value.function, terms:
        case "+", [a, b]:
            return a + b
        case "-", [a, b]:
            return a - b
        case "*", [a, b]:
            return a * b
        case "/", [a, b] if b:
            return a / b
        case "negate", [a]:
            return -a
        case "relu", [a]:
            return max(a, Fraction(0))
        case "min" | "max", _:
            return min(terms) if value.function == "min" else max(terms)
    raise CannotRunError


def differ(old: Program, new: Program, sizes: Mapping[str, int]) -> bool:
    """Whether the new one leaves something else, or leaves its variables."""
    for seed in range(2):
        try:
            before = run(old, sizes, seed)
        except (CannotRunError, OutsideError):
            return False
        try:
            if run(new, sizes, seed) != before:
                return True
        except OutsideError:
            return True
        except CannotRunError:
            return False
    return False
