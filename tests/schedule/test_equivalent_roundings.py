"""Results compared where `tf32` stands in a product, or in the copy that the product reads."""

from __future__ import annotations

from textwrap import dedent, indent

import numpy as np
import pytest

from exogpu.api import Procedure
from tests.texts import made

HEAD = (
    "@proc\ndef f(M: size, N: size, K: size, X: f32[M, K] @ DRAM, Y: f32[N, K] @ DRAM, "
    "Z: f32[M, N] @ DRAM):\n"
)

BOOK = """
    for i in seq(0, M):
        for j in seq(0, N):
            Z[i, j] = 0
            for k in seq(0, K):
                Z[i, j] += tf32(X[i, k]) * tf32(Y[j, k])
"""


def staged(x: str, y: str, of: str, kind: str = "f32", columns: str = "k") -> str:
    """Tiles of 4 columns, which end in zeros, and their product."""
    return f"""
    for i in seq(0, M):
        for j in seq(0, N):
            Z[i, j] = 0
    for s in seq(0, (K + 3) / 4):
        x: {kind}[M, 4]
        y: {kind}[N, 4]
        for i in seq(0, M):
            for k in seq(0, 4):
                x[i, k] = 0
                if 4 * s + k < K:
                    x[i, k] = {x.format("X[i, 4 * s + k]")}
        for j in seq(0, N):
            for k in seq(0, 4):
                y[j, k] = 0
                if 4 * s + {columns} < K:
                    y[j, k] = {y.format(f"Y[j, 4 * s + {columns}]")}
        for i in seq(0, M):
            for j in seq(0, N):
                for k in seq(0, 4):
                    Z[i, j] += {of}
"""


def body(text: str) -> Procedure:
    return made(HEAD + indent(dedent(text).strip("\n") + "\n", "    "))


ALIKE = {
    "as they are copied": staged("tf32({})", "tf32({})", "x[i, k] * y[j, k]"),
    "the sides exchanged": staged("tf32({})", "tf32({})", "y[j, k] * x[i, k]"),
    "one as it is copied": staged("tf32({})", "{}", "x[i, k] * tf32(y[j, k])"),
    "where it is used": staged("{}", "{}", "tf32(x[i, k]) * tf32(y[j, k])"),
}
OTHERS = {
    "nothing is rounded": staged("{}", "{}", "x[i, k] * y[j, k]"),
    "one is rounded": staged("tf32({})", "{}", "x[i, k] * y[j, k]"),
    "the other is rounded": staged("{}", "tf32({})", "x[i, k] * y[j, k]"),
    "kept in another type": staged("tf32({})", "tf32({})", "x[i, k] * y[j, k]", "bf16"),
    "columns in another order": staged(
        "tf32({})", "tf32({})", "x[i, k] * y[j, k]", columns="(3 - k)"
    ),
    "the product is rounded": staged("tf32({})", "tf32({})", "tf32(x[i, k] * y[j, k])"),
}


@pytest.mark.parametrize("name", ALIKE)
def test_it_is_the_same_wherever_it_stands(name: str) -> None:
    assert body(ALIKE[name]).equivalent_to(body(BOOK))
    assert body(BOOK).equivalent_to(body(ALIKE[name]))


@pytest.mark.parametrize("name", OTHERS)
def test_and_nothing_else_is(name: str) -> None:
    """They are not only undecided: on numbers that are rounded they leave something else."""
    other = body(OTHERS[name])
    assert not body(BOOK).equivalent_to(other) and not other.equivalent_to(body(BOOK))
    random = np.random.default_rng(0)
    X, Y = (random.standard_normal((3, 8), np.float32) for _ in range(2))
    found = [np.zeros((3, 3), np.float32) for _ in range(2)]
    for procedure, Z in zip((body(BOOK), other), found, strict=True):
        procedure.run(X=X, Y=Y, Z=Z)
    assert np.abs(found[0] - found[1]).max() > 1e-6


TWICE = """
    for i in seq(0, M):
        for j in seq(0, N):
            x: f32
            x {first} tf32(X[i, 0])
            x += tf32(X[i, 0])
            Z[i, j] = x * Y[j, 0]
"""


@pytest.mark.parametrize("first", ["=", "= 0\n            x +="])
def test_a_sum_of_two_that_are_one_element_rounded_is_no_rounding(first: str) -> None:
    head = HEAD + "    assert K > 0\n"
    twice = made(head + TWICE.format(first=first)[1:])
    once = made(head + TWICE.format(first="=")[1:].replace("            x += tf32(X[i, 0])\n", ""))
    assert once.equivalent_to(once)
    assert not once.equivalent_to(twice) and not twice.equivalent_to(once)


def test_which_side_is_rounded_counts() -> None:
    """Of products, whose sides may be exchanged, too."""
    text = BOOK.replace("tf32(Y[j, k])", "Y[j, k]")
    one, other = (
        body(text),
        body(text.replace("tf32(X[i, k]) * Y[j, k]", "X[i, k] * tf32(Y[j, k])")),
    )
    crossed = body(text.replace("tf32(X[i, k]) * Y[j, k]", "tf32(Y[j, k]) * X[i, k]"))
    assert one.equivalent_to(one)
    assert not one.equivalent_to(other) and not one.equivalent_to(crossed)
    assert other.equivalent_to(crossed)
