"""Each call tells its kernels all that they must be told: sizes that no array tells are passed.

The kernels are those that ship.  What they are given is bound as for a launch, which is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from exogpu import kernels
from exogpu.api import Procedure
from exogpu.codegen.runtime import Kernel
from exogpu.codegen.runtime.manifest import HostCode
from exogpu.kernels import attention_calls, gemm_calls, grouped_calls, row_calls
from tests.kernels.devices import TYPESTR, Device, b, e, f, i


class Bound(Kernel):
    """A kernel whose launch ends when its arguments are bound."""

    def __call__(self, *arrays: object, stream: object = None, **arguments: object) -> None:
        bound.append(self.manifest["name"])
        assert HostCode() not in self._data.steps, "the call cannot launch it"
        self.check_contracts(*arrays, stream=stream, **arguments)

    def _device(self, found: object) -> int:
        raise Enough


class Enough(Exception):
    pass


bound: list[object] = []


@pytest.fixture(autouse=True)
def _bound(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made: dict[str, Kernel] = {}

    def compiled(self: Procedure) -> Callable[..., None]:
        if self.name not in made:
            made[self.name] = Bound(self.emit("sm_90a", unchecked=True)[1], b"")

        def run(*arrays: object, **arguments: object) -> None:
            with pytest.raises(Enough):
                made[self.name](*arrays, **arguments)

        return run

    monkeypatch.setattr(Procedure, "compile", compiled)
    for module in (
        attention_calls,
        gemm_calls,
        gemm_calls,
        grouped_calls,
        row_calls,
        row_calls,
        gemm_calls,
    ):
        for name, found in vars(module).items():
            if hasattr(found, "__wrapped__") and hasattr(found, "cache_clear"):
                monkeypatch.setattr(module, name, found.__wrapped__)
    names = SimpleNamespace(**{name: name for name in TYPESTR})
    monkeypatch.setitem(sys.modules, "torch", names)
    bound.clear()
    yield


def at(first: int, array: Device) -> Device:
    """Elsewhere in memory."""
    array.at = first << 34
    return array


def q(*shape: int) -> tuple[Device, ...]:
    return tuple(at(n, b(*shape)) for n in (1, 2, 3))


SEQUENCES = tuple(at(n, i(4)) for n in (4, 5))

CALLED = {
    "gemm": lambda: kernels.gemm(f(100, 64), at(2, f(36, 64)), at(3, f(100, 36))),
    "gemm of a batch": lambda: kernels.gemm(
        b(2, 128, 64), at(2, b(2, 64, 64)), at(3, b(2, 128, 64))
    ),
    "gemm, split": lambda: kernels.gemm(f(64, 65536), at(2, f(64, 65536)), at(3, f(64, 64))),
    "gemv": lambda: kernels.gemv(f(100, 64), at(2, f(64)), at(3, f(100))),
    "gemm_fused": lambda: kernels.gemm_fused(
        b(128, 64), at(2, b(72, 64)), bias=at(4, b(72)), activation="gelu", out=at(3, b(128, 72))
    ),
    "gemm_fp8": lambda: kernels.gemm_fp8(
        e(128, 64), at(2, e(64, 64)), at(4, f(1)), at(3, b(128, 64))
    ),
    "grouped_gemm": lambda: kernels.grouped_gemm(
        b(300, 64), at(2, b(3, 72, 64)), at(4, i(4)), at(3, b(300, 72))
    ),
    "gather_rows": lambda: kernels.gather_rows(f(8, 100), at(2, i(3)), at(3, f(3, 100))),
    "scatter_rows": lambda: kernels.scatter_rows(f(3, 100), at(2, i(3)), at(3, f(8, 100))),
    "histogram": lambda: kernels.histogram(i(1000), 77, at(2, i(77))),
    "attention": lambda: kernels.attention(*q(2, 3, 70, 64), causal=True),
    "attention_varlen": lambda: kernels.attention_varlen(*q(70, 3, 64), *SEQUENCES, causal=True),
    "attention_paged": lambda: kernels.attention_paged(
        *(q(70, 2, 64)[0], at(2, b(9, 128, 2, 64)), at(3, b(9, 128, 2, 64))),
        *(at(6, i(3, 4)), SEQUENCES[0], at(7, i(3))),
    ),
    "topk": lambda: kernels.topk(f(5, 100), 8),
    "topk of a long row": lambda: kernels.topk(f(3, 40000), 50),
    "topk of a longer row": lambda: kernels.topk(f(3, 300000), 64),
    "softmax": lambda: kernels.softmax(f(5, 300), at(2, f(5, 300))),
    "rms_norm": lambda: kernels.rms_norm(b(5, 300), at(2, b(300)), 1e-5),
    "layer_norm": lambda: kernels.layer_norm(f(5, 300), at(2, f(300)), at(4, f(300))),
    "cross_entropy": lambda: kernels.cross_entropy(f(4, 80), at(2, Device(4, dtype="int64"))),
    "transpose": lambda: kernels.transpose(f(50, 84), at(2, f(84, 50))),
    "stencil": lambda: kernels.stencil(f(40, 88), np.ones((3, 3)), at(2, f(40, 88))),
}
"""All but the calls of kernels with flags, which are made of a proof: `cumsum` and `total`."""


@pytest.mark.parametrize("call", CALLED)
def test_a_call_binds_all_of_its_kernels(call: str) -> None:
    CALLED[call]()
    assert bound


def test_no_call_is_left_out() -> None:
    told = {name.partition(",")[0].partition(" ")[0] for name in CALLED}
    assert told | {"cumsum", "total"} == set(kernels.__all__)
