"""Random sequences of primitives, and whether they keep what is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

import numpy as np

from exogpu import ExoGpuError, schedule
from exogpu.analysis.bounds import violations
from exogpu.analysis.domain import least
from exogpu.api import Procedure
from exogpu.interpreter import elementwise
from exogpu.interpreter.values import NUMPY
from exogpu.ir.nodes import (
    Alloc,
    Assign,
    BinOp,
    CallProc,
    ControlParam,
    DataParam,
    For,
    If,
    Proc,
    Reduce,
    Stmt,
    WindowStmt,
)
from exogpu.ir.render import access
from exogpu.ir.scalars import INTEGERS
from exogpu.ir.walk import evaluate, holds, reads
from exogpu.schedule.expression_parts import part_text, parts
from exogpu.schedule.rewrite import paths
from tests.texts import made


def some_read(stmt: Stmt, random: Random) -> str:
    assert isinstance(stmt, Assign | Reduce)
    found = [access(a, lambda name: name.name) for a in reads(stmt.value) if a.coords]
    return random.choice(found or ["y[0]"])


def other_of_the_call(p: Procedure, c: schedule.Cursor[Procedure], random: Random) -> Procedure:
    """Calls a procedure that is made of the one called, by a step or two."""
    assert isinstance(c.stmt, CallProc)
    made = schedule.callee(p, c.stmt.proc.name)
    for _ in range(random.randrange(1, 3)):
        assert made.ir is not None
        name = random.choice(["simplify", "unroll_loop", "stage_mem", "divide_loop", "fission"])
        kinds, step = STEPS[name]
        places = [path for path, stmt in paths(made.ir) if isinstance(stmt, kinds)]
        if places:
            made = step(made, schedule.Cursor(made, random.choice(places)), random)
    return schedule.call_eqv(p, c, schedule.rename(made, f"{made.name}_"))


def some_call(p: Procedure, c: schedule.Cursor[Procedure], random: Random) -> Procedure:
    """Calls a procedure made of the statement, or of another: an outsider mostly does not fit."""
    c = schedule.followed(p, c)
    q = schedule.extract_subproc(p, c, f"g{random.randrange(1 << 20)}")
    call = next(c for c in schedule.find_all(q, "_(_)") if isinstance(c.stmt, CallProc))
    made = schedule.callee(q, call.stmt.proc.name)  # type: ignore[union-attr]
    assert p.ir is not None
    others = [path for path, stmt in paths(p.ir) if isinstance(stmt, type(c.stmt))]
    return schedule.replace(p, schedule.Cursor(p, random.choice([c.path, *others])), made)


def any_of(p: Procedure, kind: type[Stmt], random: Random) -> schedule.Cursor[Procedure]:
    assert p.ir is not None
    places = [path for path, stmt in paths(p.ir) if isinstance(stmt, kind)]
    return schedule.Cursor(p, random.choice(places))


def rewriting(stmt: Stmt, random: Random) -> tuple[str, str]:
    """A part of a value, and what may be the same."""
    assert isinstance(stmt, Assign | Reduce)
    part = random.choice([part for _, part in parts(stmt.value)])
    text = part_text(part)
    wrong = some_read(stmt, random)
    ways = [f"({text}) * 1", f"({text}) + 0", f"0 - (-({text}))", f"({text}) + 1", wrong]
    if isinstance(part, BinOp) and part.op in ("*", "+"):
        left, right = part_text(part.left), part_text(part.right)
        ways += [f"({right}) {part.op} ({left})", f"({left}) {part.op} ({right} - 2) + 2"]
    return text, random.choice(ways)


def idle_call(p: Procedure, c: schedule.Cursor[Procedure], random: Random) -> Procedure:
    """A call of a procedure that writes its parameters, which mostly is not idle."""
    writes = random.choice(["a[0] = a[1]", "a[0] += 0", "pass", "a[0] = 1", "b = a[0]"])
    shape = random.choice(["y[0 : 2]", "y[1 : 3]", "x[1, 0 : 2]"])
    assert p.ir is not None
    name, *_ = shape.split("[")
    dtype = next(d.dtype.value for d in p.ir.params if d.name.name == name)  # type: ignore[union-attr]
    lines = [f"def idle(a: {dtype}[2] @ DRAM):", f"    b: {dtype} @ DRAM", f"    {writes}"]
    return schedule.insert_noop_call(p, c.after(), made("@proc\n" + "\n".join(lines) + "\n"), shape)


Step = Callable[[Procedure, schedule.Cursor[Procedure], Random], Procedure]

STEPS: dict[str, tuple[type[Stmt] | tuple[type[Stmt], ...], Step]] = {
    "divide_loop": (
        For,
        lambda p, c, r: schedule.divide_loop(
            p, c, r.randrange(2, 4), ["a", "b"], r.choice(["perfect", "guard", "cut"])
        ),
    ),
    "reorder_loops": (For, lambda p, c, r: schedule.reorder_loops(p, c)),
    "mult_loops": (For, lambda p, c, r: schedule.mult_loops(p, c, "m")),
    "unroll_loop": (For, lambda p, c, r: schedule.unroll_loop(p, c)),
    "cut_loop": (For, lambda p, c, r: schedule.cut_loop(p, c, r.randrange(3))),
    "shift_loop": (For, lambda p, c, r: schedule.shift_loop(p, c, r.randrange(-1, 3))),
    "join_loops": (For, lambda p, c, r: schedule.join_loops(p, c)),
    "fission": (
        (Assign, Reduce, For, If),
        lambda p, c, r: schedule.fission(p, r.choice([c.before(), c.after()])),
    ),
    "fuse": (For, lambda p, c, r: schedule.fuse(p, c)),
    "remove_loop": (For, lambda p, c, r: schedule.remove_loop(p, c)),
    "reorder_stmts": ((Assign, Reduce, For, If), lambda p, c, r: schedule.reorder_stmts(p, c)),
    "lift_scope": (If, lambda p, c, r: schedule.lift_scope(p, c)),
    "specialize": (
        (Assign, Reduce, For),
        lambda p, c, r: schedule.specialize(p, c, "n", r.choice(["<", "=="]), "3"),
    ),
    "remove_if": (If, lambda p, c, r: schedule.remove_if(p, c)),
    "add_if": ((Assign, Reduce), lambda p, c, r: schedule.add_if(p, c, "n", ">", "1")),
    "eliminate_dead_code": (
        (Assign, Reduce, For),
        lambda p, c, r: schedule.eliminate_dead_code(p, c),
    ),
    "simplify": (For, lambda p, c, r: schedule.simplify(p)),
    "expand_dim": (Alloc, lambda p, c, r: schedule.expand_dim(p, c, "n + 4", r.choice("ij"))),
    "lift_alloc": (Alloc, lambda p, c, r: schedule.lift_alloc(p, c)),
    "sink_alloc": (Alloc, lambda p, c, r: schedule.sink_alloc(p, c)),
    "stage_mem": (
        (Assign, Reduce, For),
        lambda p, c, r: schedule.stage_mem(
            p, c, r.choice(["y[0 : n + 3]", "y[1 : 4]", "x[0 : n + 3, 0 : n + 3]"]), "u"
        ),
    ),
    "commute_expr": ((Assign, Reduce), lambda p, c, r: schedule.commute_expr(p, c, "_")),
    "extend_loop": (For, lambda p, c, r: schedule.extend_loop(p, c, -1, r.choice(["n + 1", 4]))),
    "fill_zero": (If, lambda p, c, r: schedule.fill_zero(p, c)),
    "divide_dim": (Alloc, lambda p, c, r: schedule.divide_dim(p, c, r.randrange(2), 2)),
    "mult_dim": (Alloc, lambda p, c, r: schedule.mult_dim(p, c, r.randrange(2))),
    "resize_dim": (
        Alloc,
        lambda p, c, r: schedule.resize_dim(p, c, 0, r.randrange(1, 3), fold=True),
    ),
    "fission of several": (
        (Assign, Reduce, For, If),
        lambda p, c, r: schedule.fission(p, r.choice([c.before(), c.after()]), 2),
    ),
    "lift_scope of a loop": (For, lambda p, c, r: schedule.lift_scope(p, c)),
    "extract_subproc": (
        (Assign, Reduce, For, If),
        lambda p, c, r: schedule.extract_subproc(
            p, c, f"f{r.randrange(1 << 20)}", r.randrange(1, 3)
        ),
    ),
    "inline": (CallProc, lambda p, c, r: schedule.inline(p, c)),
    "call_eqv": (CallProc, other_of_the_call),
    "replace": ((Assign, Reduce, For, If), some_call),
    "stage_sum": (
        (Reduce, For),
        lambda p, c, r: schedule.stage_sum(p, c, r.choice(["y[0 : n + 3]", "y[1 : 4]"]), "z"),
    ),
    "bind_expr": (
        (Assign, Reduce),
        lambda p, c, r: schedule.bind_expr(p, c, some_read(c.stmt, r), "v"),
    ),
    "divide_loop with both": (
        For,
        lambda p, c, r: schedule.divide_loop(p, c, r.randrange(2, 4), ["a", "b"], "cut_and_guard"),
    ),
    "divide_with_recompute": (
        For,
        lambda p, c, r: schedule.divide_with_recompute(
            p, c, r.choice([1, 2, "n / 2", "n - 1"]), r.randrange(1, 4), ["a", "b"]
        ),
    ),
    "add_loop": (
        (Assign, Reduce, For, If),
        lambda p, c, r: schedule.add_loop(
            p,
            c.expand(0, r.randrange(2)),
            "q",
            r.choice([1, 2, 3, "n", "n + 1"]),
            r.random() < 0.3,
        ),
    ),
    "autofission": (
        (Assign, Reduce, For, If),
        lambda p, c, r: schedule.autofission(
            p, r.choice([c.before(), c.after()]), r.randrange(1, 3)
        ),
    ),
    "fuse of guards": (If, lambda p, c, r: schedule.fuse(p, c)),
    "merge_writes": ((Assign, Reduce), lambda p, c, r: schedule.merge_writes(p, c)),
    "split_write": ((Assign, Reduce), lambda p, c, r: schedule.split_write(p, c)),
    "fold_into_reduce": (Assign, lambda p, c, r: schedule.fold_into_reduce(p, c)),
    "inline_assign": (Assign, lambda p, c, r: schedule.inline_assign(p, c)),
    "lift_reduce_constant": (Assign, lambda p, c, r: schedule.lift_reduce_constant(p, c)),
    "left_reassociate_expr": (
        (Assign, Reduce),
        lambda p, c, r: schedule.left_reassociate_expr(p, c, "_"),
    ),
    "rewrite_expr": (
        (Assign, Reduce),
        lambda p, c, r: schedule.rewrite_expr(p, c, *rewriting(c.stmt, r)),
    ),
    "rewrite_expr of an index": (
        (Assign, Reduce, For, If),
        lambda p, c, r: schedule.rewrite_expr(
            p, c, r.choice(["n", "i", "j", "i % 3", "1"]), r.choice(["i", "n", "j", "i / 1", "1"])
        ),
    ),
    "bind_expr of a part": (
        (Assign, Reduce),
        lambda p, c, r: schedule.bind_expr(p, c, r.choice(c.expressions()), "v"),
    ),
    "commute_expr of a part": (
        (Assign, Reduce),
        lambda p, c, r: schedule.commute_expr(p, c, r.choice(c.expressions())),
    ),
    "unroll_buffer": (Alloc, lambda p, c, r: schedule.unroll_buffer(p, c, r.randrange(2))),
    "autolift_alloc": (
        Alloc,
        lambda p, c, r: schedule.autolift_alloc(
            p, c, r.randrange(1, 3), r.choice(["row", "col"]), r.random() < 0.7
        ),
    ),
    "rearrange_dim": (Alloc, lambda p, c, r: schedule.rearrange_dim(p, c, r.choice([[1, 0], [0]]))),
    "apply_at_writes": (Alloc, lambda p, c, r: schedule.apply_at_writes(p, c)),
    "delete_buffer": (Alloc, lambda p, c, r: schedule.delete_buffer(p, c)),
    "reuse_buffer": (Alloc, lambda p, c, r: schedule.reuse_buffer(p, c, any_of(p, Alloc, r))),
    "resize_dim plain": (
        Alloc,
        lambda p, c, r: schedule.resize_dim(
            p, c, 0, r.choice([2, "n", "n + 4"]), r.randrange(-1, 2)
        ),
    ),
    "inline_window": (WindowStmt, lambda p, c, r: schedule.inline_window(p, c)),
    "bind_window": (
        (Assign, Reduce, For),
        lambda p, c, r: schedule.bind_window(
            p, c, r.choice(["y[0 : n + 4]", "x[1, 0 : n + 4]", "x[0 : n + 4, 0 : n + 4]"]), "v"
        ),
    ),
    "insert_pass": ((Assign, Reduce, For), lambda p, c, r: schedule.insert_pass(p, c.after())),
    "delete_pass": (For, lambda p, c, r: schedule.delete_pass(p)),
    "rename": (For, lambda p, c, r: schedule.rename(p, "g")),
    "stage_mem of several": (
        (Assign, Reduce, For),
        lambda p, c, r: schedule.stage_mem(
            p, c.expand(0, 1), r.choice(["y[0 : n + 4]", "y[1 : 3]", "x[1, 0 : n + 4]"]), "u"
        ),
    ),
    "insert_noop_call": ((Assign, Reduce, For), idle_call),
    "replace_all": (CallProc, lambda p, c, r: schedule.replace_all(p, c.stmt.proc)),  # type: ignore[union-attr]
}


@dataclass
class Sequence:
    """What became of one sequence."""

    seed: int
    first: Procedure
    last: Procedure
    taken: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    undecided: Counter[str] = field(default_factory=Counter)
    speechless: list[str] = field(default_factory=list)
    """Refusals that do not name the primitive."""


def sequence(seed: int, program: Callable[[Random], str], tries: int = 12) -> Sequence | None:
    """Random steps on a random program; None where that has an error."""
    random = Random(seed)
    first = made(program(random))
    if first.ir is None or first.diagnostics or violations(first.ir):
        return None
    found = Sequence(seed, first, first)
    cursors: list[schedule.Cursor[Procedure]] = []
    names = sorted(STEPS)
    for _ in range(tries):
        p = found.last
        assert p.ir is not None
        name = random.choice(names)
        kinds, step = STEPS[name]
        places = [path for path, stmt in paths(p.ir) if isinstance(stmt, kinds)]
        if not places or len(list(paths(p.ir))) > 18:
            continue
        for path in random.sample(places, min(len(places), 4)):
            cursor = schedule.Cursor(p, path)
            cursors.append(cursor)
            old = random.choice(cursors)
            if random.random() < 0.2 and isinstance(old.stmt, kinds):
                cursor = old  # one that has come a long way
            try:
                found.last = step(p, cursor, random)
            except ExoGpuError as error:
                if note(found, name, error):
                    continue
                break
            found.taken[name] += 1
            assert not found.last.refusals, found.last.refusals
            break
    return found


def note(found: Sequence, name: str, error: ExoGpuError) -> bool:
    """Counts a refusal; whether the step does not apply there, and may elsewhere."""
    codes = {d.code for d in error.diagnostics}
    assert codes <= {"X990", "X991", "X992", "X993"}, error
    (found.undecided if codes == {"X993"} else found.refused)[name] += 1
    found.speechless += [d.message for d in error.diagnostics if " " not in d.message]
    return codes <= {"X990", "X991"}


def differences(first: Proc, second: Procedure, sizes: range, seed: int) -> list[str]:
    """Where the second, run fast and one element at a time, leaves other results than the first,
    one element at a time.  Results that are rounded are not compared."""
    assert second.ir is not None
    found = []
    for n in sizes:
        env = {p.name: n for p in first.params if isinstance(p, ControlParam)}
        admitted = all(n >= least(first, name) for name in env)
        if not (admitted and all(holds(condition, env) for condition in first.preconditions)):
            continue
        given = whole_numbers(first, env, seed)
        expected, actual, fast = ({k: np.copy(v) for k, v in given.items()} for _ in range(3))
        elementwise.run(first, {"n": n, **expected})
        elementwise.run(second.ir, {"n": n, **actual})
        second.run(n=n, **fast)
        for name, array in expected.items():
            if array.dtype.kind == "f" and not float(np.abs(array).max(initial=0)) < 1 << 24:
                continue
            for how, other in (("", actual[name]), (" fast", fast[name])):
                if not np.array_equal(array, other, equal_nan=array.dtype.kind == "f"):
                    found.append(f"{name} at n = {n}{how}")
    return found


def whole_numbers(proc: Proc, env: Mapping[object, int], seed: int) -> dict[str, np.ndarray]:
    """Arrays of whole numbers, small ones for floating point."""
    random = np.random.default_rng(seed)
    found = {}
    for param in proc.params:
        if isinstance(param, DataParam):
            shape = tuple(evaluate(e, env) for e in param.shape)  # type: ignore[arg-type]
            most = 1 << 40 if param.dtype in INTEGERS else 2
            values = random.integers(-most, most + 1, shape)
            found[param.name.name] = values.astype(NUMPY[param.dtype])
    return found
