"""Questions to SMT solvers, as SMT-LIB 2 text: the only file that imports z3 (and cvc5)."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Final, Literal

import z3

RLIMIT: Final = 5_000_000
"""Z3's resource units for one question, the same on every machine: some seconds."""


SOON: Final = ((6, 0.1), (2, 1.0), (6, 1.0))
"""Z3's two procedures for arithmetic, in turn, and how many times the limit each may spend: sums of
many divisions, as nests have, are easier for the older one (2)."""

ATTEMPTS: Final = (*SOON, (2, 60.0))
"""The two, and for what is worth ten seconds the older one again, whose units are short: some
thirty million a second."""


LOUD = False
"""A script that Z3 cannot read is raised, and not unknown: in tests and campaigns, since it is a
mistake of who wrote it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A solver's answer to a script."""

    solver: str
    word: Literal["unsat", "sat", "unknown"]
    seconds: float
    why: str = ""
    """The reason of an `unknown`, where more is known than that it reached its limit."""


def ask_z3(
    script: str, rlimit: int = RLIMIT, attempts: Sequence[tuple[int, float]] = ATTEMPTS
) -> Reply:
    """Z3's answer; unknown beyond the limit or where it cannot read the script."""
    start = perf_counter()
    word = "unknown"
    for arithmetic, part in attempts:
        solver = _fresh()
        solver.set("rlimit", round(rlimit * part))
        solver.set("arith.solver", arithmetic)
        try:
            solver.from_string(script)
            word = str(solver.check())
        except z3.Z3Exception as error:
            _raise_if_unread(error)
            word = "unknown"
        assert word in ("unsat", "sat", "unknown")
        if word != "unknown":
            break
    return Reply(f"z3 {z3_version()}", word, perf_counter() - start)  # type: ignore[arg-type]


def _raise_if_unread(error: z3.Z3Exception) -> None:
    """Raises, where that is wanted, what is of the text, and not of a limit."""
    if LOUD and '(error "line' in str(error):
        raise error


TURNS: Final = ((2, 0.1), (6, 0.1))
"""The solvers and limits with which the scripts of a group are tried: the older procedure soon
refutes most scripts that take the other one long."""

TOGETHER: Final = 128
"""Scripts that share a context: to make one takes longer than most answers."""


def ask_together(
    scripts: Sequence[str], attempts: Sequence[tuple[int, float]] = ATTEMPTS
) -> tuple[Reply, ...]:
    """Z3's answers, in order: what is not refuted in its turn is asked alone.

    Scripts of one group may share names of constants, since each is withdrawn before the next.
    The groups follow from the scripts and their order: an answer depends on no earlier call.
    """
    found: list[Reply] = []
    for group in _groups(scripts):
        for script, seconds in zip(group, _quick_times(group), strict=True):
            if seconds is None:
                found.append(ask_z3(script, attempts=attempts))
            else:
                found.append(Reply(f"z3 {z3_version()}", "unsat", seconds))
    return tuple(found)


def _quick_times(group: Sequence[str]) -> Collection[float | None]:
    """The seconds in which one of the turns refutes each script; None where none does."""
    found: dict[int, float | None] = dict.fromkeys(range(len(group)))
    for turn in TURNS:
        left = [at for at, seconds in found.items() if seconds is None]
        if left:
            found |= zip(left, _in_turn([group[at] for at in left], *turn), strict=True)
    return found.values()


def all_refuted(scripts: Sequence[str]) -> bool:
    """Tests whether Z3 refutes every script within the limit of the first attempt; there is no
    second one.

    What it has refuted in this process it is not asked again: of two procedures that differ in a
    statement most is the same.
    """
    asked = [script for script in dict.fromkeys(scripts) if script not in _refuted]
    for group in _groups(asked):
        for script, seconds in zip(group, _in_turn(group, *ATTEMPTS[0]), strict=True):
            if seconds is None:
                return False
            _refuted[script] = None
    while len(_refuted) > KEPT:
        del _refuted[next(iter(_refuted))]
    return True


_refuted: Final[dict[str, None]] = {}
KEPT: Final = 1 << 14
"""Scripts that are known to be refuted; of more, the first are forgotten."""


def _groups(scripts: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(scripts), TOGETHER):
        yield scripts[start : start + TOGETHER]


def _in_turn(scripts: Sequence[str], arithmetic: int, times: float) -> Iterator[float | None]:
    """The seconds that one solver takes to refute each script, one after the other; None where it
    does not.

    A formula of many cases is refuted sooner where atoms that its case does not need count too.
    """
    solver = _fresh()
    solver.set("relevancy", 0)
    solver.set("rlimit", round(RLIMIT * times))
    solver.set("arith.solver", arithmetic)
    for script in scripts:
        start = perf_counter()
        solver.push()
        try:
            refuted = _refutes(solver, script)
        except z3.Z3Exception as error:
            _raise_if_unread(error)
            refuted = False
        solver.pop()
        yield perf_counter() - start if refuted else None


def _refutes(solver: z3.Solver, script: str) -> bool:
    """Tests whether a solver refutes a script; if its last assertion is a disjunction, case by
    case."""
    parts = z3.parse_smt2_string(script, ctx=solver.ctx)
    count = len(parts)
    if not count:
        return False
    solver.add(_conjunction_of_first(parts, count - 1))
    last = parts[count - 1]
    return all(_excludes(solver, one) for one in (last.children() if z3.is_or(last) else [last]))


def _excludes(solver: z3.Solver, case: z3.BoolRef) -> bool:
    solver.push()
    try:
        solver.add(case)
        return bool(solver.check() == z3.unsat)
    finally:
        solver.pop()


def _conjunction_of_first(parts: z3.AstVector, count: int) -> z3.BoolRef:
    """The conjunction of the first parts.  `z3.And` would look at each for as long as Z3 at all of
    them."""
    context = parts.ctx
    terms = (z3.Ast * count)(
        *(z3.Z3_ast_vector_get(context.ref(), parts.vector, at) for at in range(count))
    )
    return z3.BoolRef(z3.Z3_mk_and(context.ref(), count, terms), context)


@cache
def begin() -> None:
    """Does what Z3 does once in a process, for the processes that are made from this one."""
    z3.Context()


def _fresh() -> z3.Solver:
    """A solver that knows nothing of earlier questions: what Z3 answers within a limit depends on
    the terms that its context has seen."""
    return z3.SimpleSolver(ctx=z3.Context())


def smallest_model(
    script: str, names: Sequence[str], rlimit: int = RLIMIT
) -> tuple[int, ...] | Literal["unsat", "unknown"]:
    """The values of integer constants of the script where the first is smallest, of those the
    second, and so on; unknown beyond the limit or where one has no smallest value."""
    solver = _fresh()
    solver.set("rlimit", rlimit)
    try:
        solver.from_string(script)
        constants = [z3.Int(name, solver.ctx) for name in names]
        word = solver.check()
        if word != z3.sat:
            return "unsat" if word == z3.unsat else "unknown"
        found = _descend(solver, constants)
    except z3.Z3Exception as error:
        _raise_if_unread(error)
        return "unknown"
    return "unknown" if found is None else found


def is_smallest(
    script: str, names: Sequence[str], values: Mapping[str, int] | None, rlimit: int = RLIMIT
) -> bool:
    """Tests whether a script has these values of its integer constants, and none that is smaller in
    the order of the names; without values, whether it has none at all.

    False also where that could not be decided.
    """
    solver = _fresh()
    solver.set("rlimit", rlimit)
    try:
        solver.from_string(script)
        if values is None:
            return bool(solver.check() == z3.unsat)
        constants = [z3.Int(name, solver.ctx) for name in names]
        there = [c == values[name] for c, name in zip(constants, names, strict=True)]
        if solver.check(*there) != z3.sat:
            return False
        solver.add(_smaller(constants, [values[name] for name in names], solver.ctx))
        return bool(solver.check() == z3.unsat)
    except z3.Z3Exception as error:
        _raise_if_unread(error)
        return False


def _smaller(
    constants: Sequence[z3.ArithRef], values: Sequence[int], context: z3.Context
) -> z3.BoolRef:
    found = z3.BoolVal(False, context)
    for constant, value in reversed(list(zip(constants, values, strict=True))):
        found = z3.Or(constant < value, z3.And(constant == value, found))
    return found


def lexicographically_less(names: Sequence[str], values: Sequence[int]) -> str:
    """The formula that the constants are lexicographically smaller than the values."""
    found = "false"
    for name, value in reversed(list(zip(names, values, strict=True))):
        number = numeral(value)
        found = f"(or (< {name} {number}) (and (= {name} {number}) {found}))"
    return found


def numeral(value: int) -> str:
    """An integer as SMT-LIB writes it."""
    return str(value) if value >= 0 else f"(- {-value})"


QUANTIFIED: Final = (100_000, 300_000)
"""Resource units for a question with quantifiers, one after the other: those that Z3 answers at
all it answers soon."""


def always_some(scripts: Iterable[str], where: str, count: int) -> bool:
    """Tests whether, at all values of its first `count` constants that `where` admits, one of the
    scripts whose first constants have these values can be satisfied.

    False also where that could not be decided.  No more scripts are asked for than are needed.
    """
    context = z3.Context()
    incremental = z3.Solver(ctx=context)
    try:
        known: list[z3.BoolRef] = [*z3.parse_smt2_string(where, ctx=context)]
        incremental.add(*known)
        if _contradictory(incremental):
            return True
        sizes = [z3.Int(name, context) for name in declared(where)[:count]]
        for script in scripts:
            names = declared(script)
            same = list(zip((z3.Int(name, context) for name in names), sizes, strict=False))
            parsed = z3.parse_smt2_string(script, ctx=context)
            formula = z3.substitute(z3.And(z3.BoolVal(True, context), *parsed), *same)
            others = [z3.Int(name, context) for name in names[count:]]
            known.append(z3.Not(z3.Exists(others, formula) if others else formula))
            incremental.add(known[-1])
            if _contradictory(incremental):
                return True
        # Other tactics decide some that this one does not.
        for solver in (z3.Solver(ctx=context), z3.Tactic("qsat", context).solver()):
            solver.add(*known)
            if _contradictory(solver):
                return True
    except z3.Z3Exception as error:
        _raise_if_unread(error)
    return False


def _contradictory(solver: z3.Solver) -> bool:
    for rlimit in QUANTIFIED:
        solver.set("rlimit", rlimit)
        if solver.check() == z3.unsat:
            return True
    return False


def declared(script: str) -> list[str]:
    """The integer constants of a script, in order."""
    found = re.findall(r"\(declare-const (?:\|([^|]*)\||(\S+)) Int\)", script)
    return [quoted or plain for quoted, plain in found]


STEPS: Final = 64
"""Doublings after which a value is taken to have no smallest one."""


def _descend(solver: z3.Solver, constants: Sequence[z3.ArithRef]) -> tuple[int, ...] | None:
    """The lexicographically smallest values, of a solver that has just answered sat."""
    values: list[int] = []
    for constant in constants:
        model = solver.model()
        value = model.eval(constant, model_completion=True).as_long()
        step, below = 1, None  # no value is at or under `below`
        while below is None or below + 1 < value:
            bound = value - step if below is None else (below + value) // 2
            if step > 1 << STEPS:
                return None
            solver.push()
            solver.add(constant <= bound)
            word = solver.check()
            if word == z3.unknown:
                return None
            if word == z3.sat:
                value = solver.model().eval(constant, model_completion=True).as_long()
                step *= 2
            else:
                below = bound
            solver.pop()
        solver.add(constant == value)
        if solver.check() != z3.sat:
            return None
        values.append(value)
    return tuple(values)


def z3_version() -> str:
    """Such as `4.13.0`."""
    return str(z3.get_version_string())


def versioned_name(solver: Literal["z3", "cvc5"]) -> str:
    """A solver with its version, as replies name it."""
    return f"z3 {z3_version()}" if solver == "z3" else f"cvc5 {cvc5_version()}"


def cvc5_version() -> str | None:
    """The version of the installed cvc5; None where there is none."""
    try:
        return importlib.metadata.version("cvc5")
    except importlib.metadata.PackageNotFoundError:
        return None


def ask_cvc5(script: str, milliseconds: int = 60_000) -> Reply:
    """cvc5's answer; unknown beyond the limit or where it cannot read the script.

    Raises ModuleNotFoundError where it is not installed.
    """
    import cvc5

    start = perf_counter()
    solver = cvc5.Solver()
    solver.setOption("tlimit-per", str(milliseconds))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, script, "obligation")
    symbols = parser.getSymbolManager()
    word = "unknown"
    try:
        while not (command := parser.nextCommand()).isNull():
            answer = str(command.invoke(solver, symbols)).strip()
            if answer in ("sat", "unsat", "unknown"):
                word = answer
                break  # as Z3 does, which reads no further either
    except RuntimeError:  # the parser's
        word = "unknown"
    return Reply(f"cvc5 {cvc5_version()}", word, perf_counter() - start)  # type: ignore[arg-type]
