"""The files of `examples/` run: their procedures get the verdicts that their texts claim."""

from __future__ import annotations

import json

import numpy as np
import pytest

from examples import insets, matmul_cuda_cores, undistributed_register
from examples.tutorial import copy, double_buffer, product, ring, tiles
from exogpu.api import Procedure, collecting
from exogpu.diagnostics.verdict import Policy

INSETS = [p for p in vars(insets).values() if isinstance(p, Procedure)]


@pytest.mark.parametrize("policy", list(Policy), ids=lambda p: p.value)
@pytest.mark.parametrize("procedure", INSETS, ids=lambda p: p.name)
def test_the_insets_are_safe(procedure: Procedure, policy: Policy) -> None:
    sizes = dict.fromkeys(procedure.size_names, 3)
    assert procedure.check_at(policy=policy, **sizes).word == "proved"


def test_there_are_as_many_as_in_the_paper() -> None:
    assert len(INSETS) == 7


def test_the_sums_of_a_block_are_equal() -> None:
    for kernel, n in ((insets.block_sum, 128), (insets.block_sum_cp_async, 512)):
        gmem = np.arange(n, dtype=np.float32)
        total = np.zeros(128, np.float32)
        kernel.run(gmem=gmem, total=total)
        assert (total == n * (n - 1) / 2).all()


def test_one_register_cannot_belong_to_many_threads() -> None:
    verdict = undistributed_register.broadcast.check_at()
    assert verdict.word == "error"
    assert {d.code[0] for d in verdict.diagnostics} == {"D"}


def test_matmul() -> None:
    rng = np.random.default_rng(3)
    A = rng.standard_normal((17, 5), dtype=np.float32)
    B = rng.standard_normal((5, 33), dtype=np.float32)
    C = np.full((17, 33), np.nan, np.float32)
    matmul_cuda_cores.matmul_cuda_cores.run(A=A, B=B, C=C)
    assert np.allclose(C, A @ B, atol=1e-5)


def test_the_kernels_of_the_tutorial_compute_what_their_texts_say() -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((20, 128), dtype=np.float32)
    y = np.full(20 * 128, np.nan, np.float32)
    copy.copy.run(x=x.reshape(-1), y=y)
    assert (y == x.reshape(-1)).all()
    turned = np.full((128, 20), np.nan, np.float32)
    tiles.transpose.run(x=x, y=turned)
    assert (turned == x.T).all()
    for kernel in (double_buffer.column_sums, ring.column_sums):
        sums = np.full(128, np.nan, np.float32)
        kernel.run(x=x, y=sums)
        assert np.allclose(sums, x.sum(0), atol=1e-5)
    A, B = (rng.integers(-4, 5, (n, 72)).astype(np.float32) for n in (5, 9))
    C = np.full((5, 9), np.nan, np.float32)
    product.product.run(A=A, B=B, C=C)
    assert (C == A @ B.T).all()


def test_the_abstract_machine_program_is_json() -> None:
    text = json.dumps(insets.block_sum.amir().to_json())
    assert "buf" in text and "Fence" in text


def test_collecting_does_not_leak() -> None:
    with collecting() as found:
        pass
    assert found == []
