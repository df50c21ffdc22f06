"""Split along K in two passes: proved, right, the same bits each time, chosen where measured."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from exogpu import Policy
from exogpu.api import Procedure
from exogpu.interpreter import round_bf16, round_tf32
from exogpu.ir.nodes import Block, Fence, Proc, Stmt
from exogpu.ir.walk import map_blocks, walk
from exogpu.kernels import gemm_calls, select
from exogpu.kernels.gemm_splitk_sum_sm90 import KERNELS, make_gemm_splitk_sum
from exogpu.kernels.select import Product, Variant, among, fastest, shipped

ONE_OF_EACH = ("gemm_splitk_sum_sm90_2x1_128x256", "gemm_splitk_sum_bf16_sm90_1x1_64x128")
ALL = pytest.mark.parametrize("name", KERNELS)


@ALL
def test_proved_for_all_sizes(name: str) -> None:
    for policy in Policy if name in ONE_OF_EACH else (Policy.PTX,):
        verdict = KERNELS[name].check(policy=policy)
        assert verdict.word == "proved" and verdict.proof is not None and verdict.proof.complete


@ALL
@pytest.mark.parametrize("slices", [1, 18])
def test_values(name: str, slices: int) -> None:
    kind = name.removeprefix("gemm_splitk_sum_").partition("_")[0]
    rounded = {"bf16": round_bf16, "f16": np.float16}.get(kind, np.float32)
    bits = {"bf16": 2.0**-8, "f16": 2.0**-11}.get(kind, 0.0)
    rng = np.random.default_rng(slices)
    A = rounded(rng.standard_normal((1, 66, slices, 40), np.float32))
    B = rounded(rng.standard_normal((1, 132, slices, 40), np.float32))
    C = rounded(np.full((1, 66, 132), np.nan, np.float32))
    KERNELS[name].run(A=A, B=B, C=C)
    a, b = ((x if bits else round_tf32(x)).astype(np.float64) for x in (A, B))
    exact = np.einsum("lmsk,lnsk->lmn", a, b)
    limit = 16 * 40 * slices * np.finfo(np.float32).eps + 1.001 * bits * np.abs(exact)
    assert (np.abs(C.astype(np.float64) - exact) <= limit).all()
    assert np.array_equal(C, rounded(C))


def test_no_element_is_added_to_atomically() -> None:
    """What makes the order of the sums that of the text."""
    emitted = next(iter(KERNELS.values())).emit(unchecked=True)[0].source
    assert re.search(r"\b(red|atom|cp\.reduce)\b|atomic", emitted) is None


@pytest.mark.slow
def test_a_part_that_is_not_waited_for_is_a_hazard() -> None:
    """Without the Fence between its halves, a sum may miss what another warp has not stored."""
    kernel = make_gemm_splitk_sum(1, 1, 64, 16, 2, 1)
    assert kernel.check().word == "proved"
    fences = [stmt for stmt in walk(kernel.ir.body) if isinstance(stmt, Fence)]
    verdict = Procedure(kernel.name, without(kernel.ir, fences[-2]), ()).check()
    assert verdict.word == "refuted"
    assert {h.kind.value for h in verdict.hazards} >= {"RAW"}


def without(ir: Proc, gone: Stmt) -> Proc:
    def kept(block: Block) -> Block:
        return tuple(map_blocks(stmt, kept) for stmt in block if stmt is not gone)

    return replace(ir, body=kept(ir.body))


def test_it_is_not_chosen_before_it_is_measured(monkeypatch, tmp_path) -> None:
    """Its model has no seconds: it is no candidate.  With some, it is."""
    unknown = KERNELS.keys() - shipped().keys()
    for product in (Product(1, 256, 256, 65536), Product(1, 64, 4096, 4096)):
        assert fastest(product).name not in unknown
    name = "gemm_splitk_sum_sm90_2x1_128x256"
    known = {"cluster": [2, 1], "tile": [128, 256], "split": True, "steps": 1}
    variants = {**shipped(), name: select.variant(name, known, [1e-18] * 12)}
    assert among(Product(1, 256, 256, 65536), variants).name == name


@pytest.mark.parametrize(("dtype", "slices"), [("f32", [1, 2, 4]), ("bf16", [1, 2, 4])])
def test_slices_are_what_tma_takes(dtype: str, slices: list[int]) -> None:
    variant = Variant("one", (1, 1), (128, 256), True, dtype=dtype)
    assert list(variant.slices(Product(1, 64, 64, 512, dtype))) == slices
    odd = {"f32": 4 * 129, "bf16": 8 * 129}[dtype]  # half of it is no multiple of 16 bytes
    assert list(variant.slices(Product(1, 64, 64, odd, dtype)))[:2] == [1, 3]


def test_the_call_gives_the_arrays_alone(monkeypatch) -> None:
    """Its parts are memory of its own."""
    given = {}
    monkeypatch.setattr(gemm_calls, "kernel", lambda name: lambda **arrays: given.update(arrays))
    chosen = select.Choice("gemm_splitk_sum_sm90_1x1_128x256", 4)
    monkeypatch.setattr(select, "choice", lambda product: chosen)
    gemm_calls.gemm(np.zeros((8, 512), np.float32), np.zeros((12, 512), np.float32))
    assert {n: a.shape for n, a in given.items() if n != "stream"} == {
        "A": (1, 8, 4, 128),
        "B": (1, 12, 4, 128),
        "C": (1, 8, 12),
    }
