"""Relations that sites have in common are those that each pair of sites has by itself, and read no
parameter that they do not need."""

from __future__ import annotations

import itertools

import pytest

from exogpu.amir.nodes import CheckInitialised
from exogpu.kernels.gemm_sm90 import KERNELS
from exogpu.solvers import isl
from exogpu.symbolic.search.frames import Frame
from exogpu.symbolic.search.instance_model import Model
from exogpu.symbolic.sites import Site, UndecidedError
from tests.symbolic.agreement import generated

OF_PAIRS = ("instances_before", "pairs_sharing_thread", "covered_pairs", "covers", "thread_after")
MOST = 9
"""Sites that are compared with each other."""


def relation(frame: Frame, what: str, first: Site, second: Site) -> isl.Map | str:
    try:
        return getattr(frame, what)(first, second)
    except (UndecidedError, AssertionError) as reason:  # threads of a site at CPU scope
        return type(reason).__name__


def same(left: isl.Map | str, right: isl.Map | str) -> bool:
    if isinstance(left, str) or isinstance(right, str):
        return left == right
    return str(left.get_space()) == str(right.get_space()) and isl.is_equal_map(left, right)


@pytest.mark.parametrize("shape", ["ring", "multicast", "tasked", "nested", "tiles", "nests"])
@pytest.mark.parametrize("seed", range(3))
def test_what_sites_share_is_what_each_pair_has(shape: str, seed: int) -> None:
    model = Model(generated(shape, seed))
    frame = Frame(model, (), model.sites)
    for first, second in itertools.product(model.sites[:MOST], repeat=2):
        for what in OF_PAIRS:
            alone = relation(Frame(model, (), model.sites), what, first, second)
            assert same(relation(frame, what, first, second), alone), (what, first, second)


def test_relations_have_the_parameters_that_the_frame_reads() -> None:
    """Within a task the Hopper GEMM reads one division of one size; an access of a tensor reads
    its extents and the task's iterators too, and so do guards of what is asked to be written."""
    model = Model(KERNELS["gemm_sm90_1x1_128x256"].amir())
    inner = model.frame(next(s.loops[: s.task] for s in model.sites if s.task is not None))
    assert inner.depth == 3
    synchronised = [s for s in inner.sites if not isinstance(s.op, CheckInitialised)]
    (division,) = {name for s in synchronised for name in isl.params_of(inner.domain(s))}
    assert division.startswith("quotient_")
    assert isl.params_of(inner.preconditions) == (division,)
    assert len(inner.params) == 4 + 3 + 3
