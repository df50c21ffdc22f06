"""Random sequences of primitives on random procedures never change what is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import program
from steps import same_results

from exogpu import ExoGpuError
from exogpu import schedule as s
from exogpu.analysis.bounds import violations
from exogpu.api import Procedure
from exogpu.ir.nodes import Alloc, Assign, CallProc, For, If, Reduce, Stmt
from exogpu.ir.print_expressions import access
from exogpu.ir.walk import reads
from exogpu.schedule import primitive
from exogpu.schedule.checker import Objection, objection
from exogpu.schedule.rewrite import Rewrite, paths
from tests.texts import made

pytestmark = pytest.mark.slow


def some_read(stmt: Stmt, random: Random) -> str:
    assert isinstance(stmt, Assign | Reduce)
    found = [access(a, lambda name: name.name) for a in reads(stmt.value) if a.coords]
    return random.choice(found or ["y[0]"])


def other_of_the_call(p: Procedure, c: s.Cursor[Procedure], random: Random) -> Procedure:
    """Calls a procedure that is made of the one called, by a step or two."""
    assert isinstance(c.stmt, CallProc)
    made = s.callee(p, c.stmt.proc.name)
    for _ in range(random.randrange(1, 3)):
        assert made.ir is not None
        name = random.choice(["simplify", "unroll_loop", "stage_mem", "divide_loop", "fission"])
        kinds, step = STEPS[name]
        places = [path for path, stmt in paths(made.ir) if isinstance(stmt, kinds)]
        if places:
            made = step(made, s.Cursor(made, random.choice(places)), random)
    return s.call_eqv(p, c, s.rename(made, f"{made.name}_"))


def some_call(p: Procedure, c: s.Cursor[Procedure], random: Random) -> Procedure:
    """Calls a procedure made of the statement, or of another: an outsider mostly does not fit."""
    q = s.extract_subproc(p, c, f"g{random.randrange(1 << 20)}")
    call = next(c for c in s.find_all(q, "_(_)") if isinstance(c.stmt, CallProc))
    made = s.callee(q, call.stmt.proc.name)  # type: ignore[union-attr]
    assert p.ir is not None
    others = [path for path, stmt in paths(p.ir) if isinstance(stmt, type(c.stmt))]
    return s.replace(p, s.Cursor(p, random.choice([c.path, *others])), made)


Step = Callable[[Procedure, s.Cursor[Procedure], Random], Procedure]

STEPS: dict[str, tuple[type[Stmt] | tuple[type[Stmt], ...], Step]] = {
    "divide_loop": (
        For,
        lambda p, c, r: s.divide_loop(
            p, c, r.randrange(2, 4), ["a", "b"], r.choice(["perfect", "guard", "cut"])
        ),
    ),
    "reorder_loops": (For, lambda p, c, r: s.reorder_loops(p, c)),
    "mult_loops": (For, lambda p, c, r: s.mult_loops(p, c, "m")),
    "unroll_loop": (For, lambda p, c, r: s.unroll_loop(p, c)),
    "cut_loop": (For, lambda p, c, r: s.cut_loop(p, c, r.randrange(3))),
    "shift_loop": (For, lambda p, c, r: s.shift_loop(p, c, r.randrange(-1, 3))),
    "join_loops": (For, lambda p, c, r: s.join_loops(p, c)),
    "fission": (
        (Assign, Reduce, For, If),
        lambda p, c, r: s.fission(p, r.choice([c.before(), c.after()])),
    ),
    "fuse": (For, lambda p, c, r: s.fuse(p, c)),
    "remove_loop": (For, lambda p, c, r: s.remove_loop(p, c)),
    "reorder_stmts": ((Assign, Reduce, For, If), lambda p, c, r: s.reorder_stmts(p, c)),
    "lift_scope": (If, lambda p, c, r: s.lift_scope(p, c)),
    "specialize": (
        (Assign, Reduce, For),
        lambda p, c, r: s.specialize(p, c, "n", r.choice(["<", "=="]), "3"),
    ),
    "remove_if": (If, lambda p, c, r: s.remove_if(p, c)),
    "add_if": ((Assign, Reduce), lambda p, c, r: s.add_if(p, c, "n", ">", "1")),
    "eliminate_dead_code": ((Assign, Reduce, For), lambda p, c, r: s.eliminate_dead_code(p, c)),
    "simplify": (For, lambda p, c, r: s.simplify(p)),
    "expand_dim": (Alloc, lambda p, c, r: s.expand_dim(p, c, "n + 4", r.choice("ij"))),
    "lift_alloc": (Alloc, lambda p, c, r: s.lift_alloc(p, c)),
    "sink_alloc": (Alloc, lambda p, c, r: s.sink_alloc(p, c)),
    "stage_mem": (
        (Assign, Reduce, For),
        lambda p, c, r: s.stage_mem(
            p, c, r.choice(["y[0 : n + 3]", "y[1 : 4]", "x[0 : n + 3, 0 : n + 3]"]), "u"
        ),
    ),
    "commute_expr": ((Assign, Reduce), lambda p, c, r: s.commute_expr(p, c, "_")),
    "extend_loop": (For, lambda p, c, r: s.extend_loop(p, c, -1, r.choice(["n + 1", 4]))),
    "fill_zero": (If, lambda p, c, r: s.fill_zero(p, c)),
    "divide_dim": (Alloc, lambda p, c, r: s.divide_dim(p, c, r.randrange(2), 2)),
    "mult_dim": (Alloc, lambda p, c, r: s.mult_dim(p, c, r.randrange(2))),
    "resize_dim": (Alloc, lambda p, c, r: s.resize_dim(p, c, 0, r.randrange(1, 3), fold=True)),
    "fission of several": (
        (Assign, Reduce, For, If),
        lambda p, c, r: s.fission(p, r.choice([c.before(), c.after()]), 2),
    ),
    "lift_scope of a loop": (For, lambda p, c, r: s.lift_scope(p, c)),
    "extract_subproc": (
        (Assign, Reduce, For, If),
        lambda p, c, r: s.extract_subproc(p, c, f"f{r.randrange(1 << 20)}", r.randrange(1, 3)),
    ),
    "inline": (CallProc, lambda p, c, r: s.inline(p, c)),
    "call_eqv": (CallProc, other_of_the_call),
    "replace": ((Assign, Reduce, For, If), some_call),
    "stage_sum": (
        (Reduce, For),
        lambda p, c, r: s.stage_sum(p, c, r.choice(["y[0 : n + 3]", "y[1 : 4]"]), "z"),
    ),
    "bind_expr": (
        (Assign, Reduce),
        lambda p, c, r: s.bind_expr(p, c, some_read(c.stmt, r), "v"),
    ),
}

taken: Counter[str] = Counter()
refused: Counter[str] = Counter()


def schedule_at_random(seed: int) -> None:
    random = Random(seed)
    p = first = made(program(random))
    assert first.ir is not None
    if violations(first.ir):
        return
    names = sorted(STEPS)
    for _ in range(14):
        name = random.choice(names)
        kinds, step = STEPS[name]
        assert p.ir is not None
        places = [path for path, stmt in paths(p.ir) if isinstance(stmt, kinds)]
        if not places or len(list(paths(p.ir))) > 24:
            continue
        cursor = s.Cursor(p, random.choice(places))
        try:
            p = step(p, cursor, random)
        except ExoGpuError as error:
            unclear = {"X993"} if name == "stage_sum" else set()
            assert {d.code for d in error.diagnostics} <= {"X991", "X992"} | unclear, error
            refused[name] += 1
            continue
        taken[name] += 1
        assert not p.refusals
    if p is not first:
        assert same_results(first, p, 5) == 5


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.integers(0, 1 << 32))
def any_schedule(seed: int) -> None:
    schedule_at_random(seed)


def test_random_schedules_keep_the_results() -> None:
    """And most primitives were taken, and refused: of the others it would say nothing."""
    taken.clear()
    refused.clear()
    any_schedule()
    assert len(taken) >= 17, taken
    assert sum(taken.values()) > 70, taken
    assert len(refused) >= 15, refused


def both_ways(edit: Rewrite) -> Objection | None:
    """The checker's answer, which must not depend on variables that it leaves out."""
    found, thorough = objection(edit), objection(edit, everything=True)
    assert (found is None) == (thorough is None), (found, thorough)
    return found


def test_variables_of_which_nothing_changed_may_be_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(primitive, "objection", both_ways)
    for seed in range(60, 75):
        schedule_at_random(seed)
