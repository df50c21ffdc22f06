"""The files of `examples/` run: their procedures get the verdicts that their texts claim."""

from __future__ import annotations

import json

import numpy as np
import pytest

from examples import dropout_philox, insets, matmul_cuda_cores, undistributed_register, w4a16
from examples.tutorial import copy, double_buffer, product, ring, tiles
from exogpu.api import Procedure, collecting
from exogpu.diagnostics.verdict import Policy
from exogpu.interpreter import round_bf16

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


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox 4x32-10, in Python's integers."""
    (a, b, c, d), (k, m) = counter, key
    for _ in range(10):
        first, second = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = second >> 32 ^ b ^ k, second % 2**32, first >> 32 ^ d ^ m, first % 2**32
        k, m = (k + 0x9E3779B9) % 2**32, (m + 0xBB67AE85) % 2**32
    return [a, b, c, d]


def test_philox_has_its_published_value() -> None:
    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_dropout_takes_the_numbers_of_philox() -> None:
    n, seed, offset, threshold = 24, 0x123456789ABCDEF0, 7 << 33 | 5, 1 << 31
    x, y = np.arange(1, n + 1, dtype=np.float32), np.full(n, np.nan, np.float32)
    given = {"seed": np.uint64(seed), "offset": np.uint64(offset), "scale": np.float32(2)}
    arrays = {name: np.asarray(value) for name, value in given.items()}
    arrays["threshold"] = np.asarray(threshold, np.uint32)
    dropout_philox.dropout_philox.run(x=x, y=y, **arrays)
    key = [seed & 0xFFFFFFFF, seed >> 32]
    numbers = [
        word
        for four in range(n // 4)
        for word in philox([four, 0, offset & 0xFFFFFFFF, offset >> 32], key)
    ]
    wanted = [
        0.0 if word < threshold else 2 * value for word, value in zip(numbers, x, strict=True)
    ]
    assert y.tolist() == wanted and 0 < sum(word < threshold for word in numbers) < n


def test_dropout_is_proved() -> None:
    assert dropout_philox.dropout_philox.check().word == "proved"


def test_weights_of_4_bits() -> None:
    rng = np.random.default_rng(5)
    W, S = rng.integers(0, 256, (9, 128), np.uint8), rng.integers(1, 4, (2, 9)).astype(np.float32)
    X, Y = rng.integers(-2, 3, (5, 256)).astype(np.float32), np.full((5, 9), np.nan, np.float32)
    w4a16.w4a16.run(W=W, S=S, X=X, Y=Y)
    weights = (np.stack([W & 15, W >> 4], 2).reshape(9, 256) - 8.0) * np.repeat(S, 128, 0).T
    assert (round_bf16(X @ weights.T) == Y).all()


def test_weights_of_4_bits_are_proved() -> None:
    assert w4a16.w4a16.check().word == "proved"
