"""Shipped kernels are derived from their textbook loops, up to names."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest

from exogpu import schedule
from exogpu.api import Procedure
from exogpu.kernels import (
    derived_bias_relu_sm90,
    derived_gemv,
    derived_sm80,
    derived_sm90,
    derived_splitk_sm90,
)
from exogpu.kernels.gemm_bias_relu_sm90 import make_gemm_bias_relu
from exogpu.kernels.gemm_sm80 import gemm_sm80
from exogpu.kernels.gemm_sm90 import make_gemm
from exogpu.kernels.gemm_splitk_sm90 import make_gemm_splitk
from exogpu.kernels.gemv_f32 import make_gemv, make_gemv_rows

pytestmark = pytest.mark.slow

CLUSTER = (2, 1, 128, 128, 4)
"""CTAs of a cluster, the tile of one, slots of the ring."""


def up_to_names(p: Procedure) -> str:
    """The text with loops and variables named by the order of their first uses."""
    text = schedule.text(p)
    declared = re.findall(r"for (\w+) in|^ *(\w+): ", text, re.MULTILINE)
    own = {a or b for a, b in declared}
    names: dict[str, str] = {}
    return re.sub(
        r"\b[A-Za-z_]\w*\b",
        lambda word: names.setdefault(word[0], f"v{len(names)}") if word[0] in own else word[0],
        text,
    )


def test_the_sm80_gemm() -> None:
    p = derived_sm80.derived()
    assert up_to_names(p) == up_to_names(gemm_sm80)
    assert p is derived_sm80.derived()
    assert p.check().word == "proved"


@pytest.mark.parametrize(
    "name", ["a Hopper GEMM", pytest.param("the GEMV of long rows", marks=pytest.mark.long)]
)
def test_every_step_is_certified(name: str) -> None:
    """The second is compared by results in three of its steps."""
    if name == "a Hopper GEMM":
        procedure = derived_sm90.derived(*CLUSTER)
    else:
        procedure = derived_gemv.derived_rows()
    found, steps = schedule.certificate(procedure), len([*schedule.chain(procedure)])
    assert len(found.steps) >= steps > 60 and found.complete
    assert sum(step.decided == "certificate" for step in found.steps) > steps / 2


def test_the_history_leads_back_to_three_loops() -> None:
    p = derived_sm80.derived()
    steps = list(schedule.chain(p))
    primitives = [step.primitive for _, step in steps]
    assert len(primitives) > 100 and primitives.count("replace") == 7
    assert schedule.text(steps[-1][1].parent) == schedule.text(derived_sm80.textbook())
    assert schedule.assumptions(p) == ()


@pytest.mark.parametrize("sizes", [(1, 1, 4), (65, 70, 36), (3, 129, 20)])
def test_the_product_is_right_with_its_edges(sizes: tuple[int, int, int]) -> None:
    M, N, K = sizes
    random = np.random.default_rng(M)
    A = random.integers(-3, 4, (M, K)).astype(np.float32)
    B = random.integers(-3, 4, (N, K)).astype(np.float32)
    C = np.zeros((M, N), np.float32)
    derived_sm80.derived().run(A=A, B=B, C=C)
    np.testing.assert_array_equal(C, A @ B.T)


CLUSTER = (2, 1, 128, 128, 4)
"""CTAs of a cluster, the tile of one, slots of the ring."""


WINDOW = re.compile(r"^ *(\w*tile|sums) = ", re.MULTILINE)


def without_windows(p: Procedure) -> Procedure:
    """With the windows that inlined calls leave written out."""
    while found := WINDOW.search(schedule.text(p)):
        p = schedule.inline_window(p, found[1])
    return p


HOPPER = {
    "gemm": (derived_sm90.derived, make_gemm, CLUSTER),
    "gemm of one CTA": (derived_sm90.derived, make_gemm, (1, 1, 128, 64, 8)),
    "split-k of one warpgroup": (
        derived_splitk_sm90.derived,
        partial(make_gemm_splitk, dependent=False),  # C is zeroed by a memset
        (1, 1, 64, 128, 6, 1),
    ),
    "bias and relu": (
        derived_bias_relu_sm90.derived,
        make_gemm_bias_relu,
        CLUSTER,
    ),
}


@pytest.mark.parametrize("name", HOPPER)
def test_a_hopper_kernel(name: str) -> None:
    """Windows and sums of indices are written otherwise there; `simplify` writes both alike."""
    derive, make, configuration = HOPPER[name]
    written = without_windows(make(*configuration))
    derived = schedule.rename(derive(*configuration), written.name)
    assert up_to_names(schedule.simplify(derived)) == up_to_names(schedule.simplify(written))
    assert derived.check().word == "proved"


@pytest.mark.parametrize("configuration", [(4, 1)], ids=str)
def test_the_gemv(configuration: tuple[int, int]) -> None:
    p = derived_gemv.derived(*configuration)
    assert up_to_names(schedule.simplify(p)) == up_to_names(
        schedule.simplify(make_gemv(*configuration))
    )
    assert p.check().word == "proved"
    # An exchange adds up in another order than the loop: equal as sets of terms.
    assert derived_gemv.textbook().equivalent_to(p)


def test_the_gemv_of_long_rows() -> None:
    p = derived_gemv.derived_rows()
    assert up_to_names(schedule.simplify(p)) == up_to_names(schedule.simplify(make_gemv_rows()))
    assert p.check().word == "proved"


@pytest.mark.parametrize("sizes", [(1, 1, 1, 4), (2, 260, 130, 36)])
def test_the_hopper_product_is_right_with_its_edges(sizes: tuple[int, int, int, int]) -> None:
    L, M, N, K = sizes
    random = np.random.default_rng(M)
    A = random.integers(-3, 4, (L, M, K)).astype(np.float32)
    B = random.integers(-3, 4, (L, N, K)).astype(np.float32)
    C = np.zeros((L, M, N), np.float32)
    derived_sm90.derived(*CLUSTER).run(A=A, B=B, C=C)
    np.testing.assert_array_equal(C, A @ B.transpose(0, 2, 1))


@pytest.mark.parametrize("sizes", [(1, 4), (9, 260), (8, 36)])
def test_the_sums_of_rows_are_right_with_their_edges(sizes: tuple[int, int]) -> None:
    M, K = sizes
    random = np.random.default_rng(M)
    A, x = (random.integers(-3, 4, shape).astype(np.float32) for shape in ((M, K), (K,)))
    y = np.full(M, 7, np.float32)
    for derived in (derived_gemv.derived(), derived_gemv.derived_rows()):
        y[:] = 7
        derived.run(A=A, x=x, y=y)
        np.testing.assert_array_equal(y, A @ x)


@pytest.mark.parametrize("sizes", [(1, 1, 4, 1, 4), (2, 130, 260, 3, 36)])
def test_the_slices_add_up_with_their_edges(sizes: tuple[int, int, int, int, int]) -> None:
    L, M, N, S, K = sizes
    random = np.random.default_rng(M)
    A = random.integers(-3, 4, (L, M, S, K)).astype(np.float32)
    B = random.integers(-3, 4, (L, N, S, K)).astype(np.float32)
    C = np.full((L, M, N), 7, np.float32)
    derived_splitk_sm90.derived(*CLUSTER).run(A=A, B=B, C=C)
    np.testing.assert_array_equal(C, np.einsum("bisk,bjsk->bij", A, B))


@pytest.mark.parametrize("sizes", [(1, 1, 1, 4), (2, 260, 130, 36)])
def test_bias_and_relu_are_right_with_their_edges(sizes: tuple[int, int, int, int]) -> None:
    L, M, N, K = sizes
    random = np.random.default_rng(M)
    A = random.integers(-3, 4, (L, M, K)).astype(np.float32)
    B = random.integers(-3, 4, (L, N, K)).astype(np.float32)
    bias = random.integers(-30, 31, N).astype(np.float32)
    C = np.full((L, M, N), -7, np.float32)
    derived_bias_relu_sm90.derived(*CLUSTER).run(A=A, B=B, bias=bias, C=C)
    np.testing.assert_array_equal(C, np.maximum(A @ B.transpose(0, 2, 1) + bias, 0))
