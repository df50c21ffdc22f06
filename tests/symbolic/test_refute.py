"""Refutations: the smallest sizes, replayed; and what the prover says of wrong predictions."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from exogpu.diagnostics.verdict import Policy
from exogpu.machine import fast, literal
from exogpu.symbolic.search.analysis import Undecided, analyse
from exogpu.symbolic.search.refute import (
    Refutation,
    faults,
    further,
    pair_of,
    refute,
    smallest_sizes,
)
from tests.machine import generate
from tests.machine.build import COMMIT, Q1, Q2, RAW, UNORDERED, Builder, mod, sub, t


def copies(in_flight: int, first: int = 0) -> Builder:
    """Copies into a double buffer, each read one trip after it; up to `in_flight` unfinished."""
    b = Builder()
    n, m = b.size("n"), b.size("m")
    x, cg = b.data("x", 2), b.barrier("cg", mechanism=COMMIT)
    b.alloc(x)
    b.alloc(cg)
    with b.loop("k", 0, sub(n, first)) as k:
        b.write(x[mod(k, 2)], t(0), Q2, level=UNORDERED)
        b.arrive(t(0), Q2, cg[()])
        b.await_(cg[()], t(0), {Q1, Q2}, n=in_flight)
        b.read(x[mod(sub(k, 1), 2)], t(0), Q1)
        b.fence(t(0), Q1, temporal=Q2)
    with b.loop("j", 0, m):
        b.read(x[0], t(1), Q2)
    b.await_(cg[()], t(0), Q1, n=0)
    return b


@pytest.mark.parametrize("first", [0, 1, 5])
def test_smallest_sizes(first: int) -> None:
    # The read in trip k meets the copy of trip k - 1 unless the Await lets only one be in flight:
    # with two, trip k = 1 is too early, so `n - first` is at least 2.  The other hazard (thread 1
    # reads x[0] with nothing ordered) needs one trip of each loop: n - first = 1.
    made = copies(2, first).program(Policy.PTX)
    findings = analyse(made)
    assert [f.kind for f in findings.violations].count(RAW) == 2
    assert smallest_sizes(made, findings) == {"n": 1 + first, "m": 1}


def test_refutation_is_replayed() -> None:
    program = copies(2).program(Policy.PTX)
    found = refute(program, analyse(program), literal.run)
    assert isinstance(found, Refutation)
    assert found.sizes == {"n": 1, "m": 1}
    assert literal.run(program, found.sizes) == (found.violation,)


def every_pair(program, sizes):
    return fast.run(program, sizes, keep=fast.Keep.PAIRS).violations


def test_each_pair_is_refuted_at_its_own_smallest_sizes() -> None:
    program = copies(2, first=1).program(Policy.PTX)
    findings = analyse(program)
    found = refute(program, findings, literal.run)
    assert isinstance(found, Refutation)
    others = list(further(program, findings, found, every_pair))
    # The reads after the loop at once, and those in it from the second trip on.
    sizes = {pair_of(r.violation): dict(r.sizes) for r in (found, *others)}
    assert len(sizes) == 1 + len(others)
    assert sizes == {fault.pair: dict(fault.sizes) for fault in faults(program, findings)}
    for fault in faults(program, findings):
        for n in range(1, fault.sizes["n"]):
            smaller = every_pair(program, {"n": n, "m": fault.sizes["m"]})
            assert fault.pair not in map(pair_of, smaller)


def test_unconfirmed_predictions_are_undecided() -> None:
    # A machine that finds nothing, and one that finds something else.
    program = copies(2).program(Policy.PTX)
    findings = analyse(program)
    silent = refute(program, findings, lambda program, sizes: ())
    assert isinstance(silent, Undecided) and "mistake of the prover" in silent.reason

    def elsewhere(program, sizes):
        (found,) = literal.run(program, sizes)
        return (replace(found, index=(1,)),)

    other = refute(program, findings, elsewhere)
    assert isinstance(other, Undecided) and "not predicted" in other.reason


def test_nothing_to_refute() -> None:
    program = copies(1).program(Policy.PTX)
    body = program.body[:3] + program.body[4:]  # without thread 1's reads
    assert refute(program, analyse(replace(program, body=body)), literal.run) is None


@pytest.mark.parametrize("seed", range(12))
def test_generated_refutations_are_confirmed(seed: int) -> None:
    # Mutated rings: what is predicted at the smallest sizes is what the machine stops at, and at
    # no smaller size does it stop.
    made = generate.program(Random(seed), "ring").program
    found = refute(made, analyse(made), literal.run)
    if found is None:
        assert all(not literal.run(made, {"K": k}) for k in range(1, 8))
        return
    assert isinstance(found, Refutation)
    assert all(not literal.run(made, {"K": k}) for k in range(1, found.sizes["K"]))


def test_a_violation_of_what_is_undecided_refutes() -> None:
    # y is allocated in two places, which the prover leaves open; the machine stops there, before
    # it comes to the race on x that was predicted.
    b = Builder()
    n = b.size("n")
    x, y = b.data("x", 1), b.data("y", 1)
    with b.loop("k", 0, n):
        for _ in range(2):
            b.alloc(y)
            b.write(y[0], t(0), Q1)
            b.read(y[0], t(1), Q1)
        b.write(x[0], t(0), Q1)
        b.read(x[0], t(1), Q1)
    program = b.program(Policy.PTX)
    findings = analyse(program)
    assert findings.violations and findings.undecided
    found = refute(program, findings, literal.run)
    assert isinstance(found, Refutation)
    assert (found.violation.variable, found.finding, found.sizes) == ("y", None, {"n": 1})
