"""The two timelines of a bulk store: when its source may be overwritten, and when what it writes
is there (decision `bulk-store-source`)."""

from __future__ import annotations

import pytest

from exogpu.api import Procedure
from exogpu.diagnostics.hazards import HazardKind
from tests.texts import made

READ = "Arrive(tma_to_gmem_source) >> cg"
DONE = "Arrive(tma_to_gmem_async) >> cg"
WAIT = "Await(cg, cuda_in_order, {})"


def stores(
    *, arrive: str = READ, wait: str = WAIT.format(1), last: str = "", buffers: int = 2
) -> Procedure:
    """Tiles of y are staged in buffers that take turns, and stored; `last` comes after them."""
    group = "cg: barrier @ CudaCommitGroup" if "cg" in arrive + wait + last else "pass"
    return made(f"""
@proc
def stores(
    K: size, x: f32[K, 8, 32] @ CudaGmemLinear, y: f32[K, 8, 32] @ CudaGmemLinear,
    z: f32[K] @ CudaGmemLinear,
):
    y_map = y[:, :, :] @ Sm90_tensorMap(0, 1, 8, 32)
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            tile: f32[{buffers}, 8, 32] @ CudaSmemLinear
            {group}
            for k in seq(0, K):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    for i in seq(0, 8):
                        tile[k % {buffers}, i, t] = x[k, i, t]
                Fence(cuda_in_order, cuda_generic_and_async)
                Sm90_tma_store(
                    y_map[k, :, :], tile[k % {buffers}, :, :], rows=8, cols=32, box=(1, 8, 32)
                )
                {arrive}
                {wait}
            {last or "pass"}
            Fence(tma_to_gmem_source, cuda_in_order)
""")


COPY = """for t in cuda_threads(0, 1, unit=cuda_thread):
                for k in seq(0, K):
                    z[k] = y[k, 0, 0]"""
CLEAR = COPY.replace("z[k] = y[k, 0, 0]", "y[k, 0, 0] = 0.0")
AGAIN = """for k in seq(0, K):
                Sm90_tma_store(y_map[k, :, :], tile[0, :, :], rows=8, cols=32, box=(1, 8, 32))
            Fence(tma_to_gmem_source, cuda_in_order)"""
ALL, REST = "Fence(tma_to_gmem_async, cuda_in_order)\n            ", WAIT.format(0)


@pytest.mark.parametrize(
    "procedure",
    [
        stores(last=REST),
        stores(arrive=DONE, last=REST),
        stores(wait=WAIT.format(0), buffers=1, last=REST),
        stores(wait=WAIT.format(0).replace("in_order", "temporal"), buffers=1, last=REST),
        stores(arrive="Fence(tma_to_gmem_source, cuda_in_order)", wait="pass", buffers=1),
        stores(last=f"{REST}\n            {ALL}{COPY}"),
        stores(last=f"{REST}\n            {ALL}{CLEAR}"),
        stores(last=f"{REST}\n            {ALL}{AGAIN}"),
        stores(arrive=DONE, last=f"{REST}\n            {COPY}"),
    ],
)
@pytest.mark.parametrize("policy", ["ptx", "paper"])
def test_proved(procedure: Procedure, policy: str) -> None:
    assert procedure.check(policy=policy).word == "proved"


@pytest.mark.parametrize(
    ("procedure", "kind"),
    [
        # The buffer is staged again before it was read.
        (stores(wait="pass", last=REST), HazardKind.WAR),
        (stores(wait=WAIT.format(2), last=REST), HazardKind.WAR),
        (stores(wait=WAIT.format(1), buffers=1, last=REST), HazardKind.WAR),
        (stores(arrive="Fence(cuda_in_order, cuda_in_order)", wait="pass"), HazardKind.WAR),
        # The wait for reads is taken for one for writes.
        (stores(last=f"{REST}\n            {COPY}"), HazardKind.RAW),
        (stores(last=f"{REST}\n            {CLEAR}"), HazardKind.WAW),
        (stores(last=f"{REST}\n            {AGAIN}"), HazardKind.WAW),
        (
            stores(last=f"Fence(tma_to_gmem_source, cuda_generic_and_async)\n            {COPY}"),
            HazardKind.RAW,
        ),
    ],
)
@pytest.mark.parametrize("policy", ["ptx", "paper"])
def test_refuted(procedure: Procedure, kind: HazardKind, policy: str) -> None:
    verdict = procedure.check(policy=policy)
    assert verdict.word == "refuted"
    assert kind in {hazard.kind for hazard in verdict.hazards}
