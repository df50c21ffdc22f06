"""A loop that is looked up as a whole, inside of iterations that are not alike, hides no hazard:
not even one of a single iteration, the last one among them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exogpu.amir.nodes import Program
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.nodes import And, Compare, Int, Not
from exogpu.machine import fast, literal
from exogpu.machine.fast import loop_skipping
from tests.machine.build import COMMIT, Q1, Q2, UNORDERED, Builder, add, mod, t


def rings(wrong: tuple[int, int] | None) -> Program:
    """Copies into four slots, each awaited at once but for one, `I` times `K` of them; threads of
    another number each time write something else first."""
    b = Builder()
    outer, inner = b.size("I"), b.size("K")
    x, other = b.data("x", 4), b.data("other", 1, local=True)
    cg = b.barrier("cg", mechanism=COMMIT)
    b.alloc(x)
    b.alloc(cg)
    with b.loop("i", 0, outer) as i:
        b.alloc(other)
        b.write(other[0], t(add(8, i)), Q1)
        b.release(other)
        with b.loop("k", 0, inner) as k:
            b.write(x[mod(k, 4)], t(0), Q2, level=UNORDERED)
            b.arrive(t(0), Q2, cg[()])
            if wrong is None:
                b.await_(cg[()], t(0), {Q1, Q2}, n=0)
            else:
                at, step = wrong
                here = And(Compare("==", i, Int(at)), Compare("==", k, Int(step)))
                with b.when(Not(here)):
                    b.await_(cg[()], t(0), {Q1, Q2}, n=0)
            b.read(x[mod(k, 4)], t(0), Q1)
            b.fence(t(0), {Q1}, {Q1, Q2})
    return b.program(Policy.PTX)


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.integers(1, 7), st.integers(1, 9), st.data())
def test_one_await_less_is_found_where_the_literal_machine_finds_it(
    times: int, steps: int, data: st.DataObject
) -> None:
    wrong = (data.draw(st.integers(0, times)), data.draw(st.integers(0, steps)))
    program, sizes = rings(wrong), {"I": times, "K": steps}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop_skipping, "WORTH", data.draw(st.sampled_from([1, 4])))
        found = literal.run(program, sizes)
        assert fast.run(program, sizes).violations == found
    assert bool(found) == (wrong[0] < times and wrong[1] < steps)


def test_the_last_of_many_is_found() -> None:
    assert fast.run(rings(None), {"I": 200, "K": 40}).violations == ()
    for wrong in ((199, 39), (199, 0), (0, 39)):
        (violation,) = fast.run(rings(wrong), {"I": 200, "K": 40}).violations
        assert violation.iteration == (("i", wrong[0]), ("k", wrong[1]))


def test_a_whole_loop_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[int]()
    look_up = loop_skipping._Skipping._apply

    def counted(self: loop_skipping._Skipping, effect: loop_skipping.Effect, *rest: object) -> None:
        found.append(effect.operations)
        look_up(self, effect, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(loop_skipping._Skipping, "_apply", counted)
    fast.run(rings(None), {"I": 200, "K": 40})
    # Without, there are 40 for each of the 200.
    assert len(found) < 400
    assert max(found) >= 40 * 4
