"""Arrivals on mbarriers: multicast beside bytes, roles that take turns, TMA's own timeline."""

from __future__ import annotations

import re

import pytest

from exogpu import proc
from exogpu.codegen.mbarriers import rings
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.nodes import WarpConfig as CudaWarpConfig
from exogpu.isa.sm90 import Sm90_tma_load, Sm90_tma_multicast
from tests.texts import made


def body(procedure) -> str:
    """The kernel's text, with d for ring depths and s for the bytes of a ring; what is proved is
    compiled, without a warning."""
    verdict = procedure.check()
    assert verdict.word == "proved" and not verdict.warnings, verdict
    text = procedure.emit()[0].source
    text = re.sub(r"(mbarrier_\w+)<\d+>", r"\1<d>", text[text.index("__global__") :])
    return re.sub(r"\b(turn|z) \+ \d+ \*", r"\1 + s *", text)


def ring(procedure, name):
    facts = procedure.facts
    (found,) = [r for n, r in rings(facts).items() if n.name == name]
    return found


@proc
def multicast_producers(
    K: size, x: f32[K, 64, 32] @ CudaGmemLinear, y: f32[K, 2, 64, 32] @ CudaGmemLinear
):
    """Each CTA sends a half of every tile to both, and says so to both."""
    x_map = x[:, :, :] @ Sm90_tensorMap(128, 1, 32, 32)
    with CudaDeviceFunction(clusterDim=2, blockDim=96):
        for task in cuda_tasks(0, 1):
            s: f32[2, 3, 64, 32] @ Sm90_SmemSwizzled(128)
            full: barrier[2] @ CudaMbarrier
            empty: barrier(full)[2] @ CudaMbarrier
            for k in seq(0, K):
                with CudaWarps(2, 3):
                    for m in cuda_threads(0, 2, unit=cuda_warp_in_cluster):
                        Await(empty[m], cuda_generic_and_async, ~3)
                    (
                        Sm90_tma_multicast(
                            s[:, k % 3, :, :],
                            x_map[k, :, :],
                            n=2,
                            rows=64,
                            cols=32,
                            box=(1, 32, 32),
                        )
                        >> full[:]
                    )
                    for m in cuda_threads(0, 2, unit=cuda_warp_in_cluster):
                        Arrive(cuda_temporal) >> full[m] >> full[:]
                with CudaWarps(0, 2):
                    for m in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                        Await(full[m], cuda_generic_and_async, ~0)
                        for t in cuda_threads(0, 64, unit=cuda_thread):
                            for j in seq(0, 32):
                                y[k, m, t, j] = s[m, k % 3, t, j]
                        Arrive(cuda_in_order) >> empty[m] >> empty[:]
            Fence(cuda_in_order, cuda_in_order)


def test_a_multicast_arrive_tells_each_cta_of_its_own_bytes():
    """64 x 32 elements of 4 bytes land in each CTA; its own arrival expects them, the other CTA's
    is a plain one, and both complete the phase."""
    text = body(multicast_producers)
    assert ring(multicast_producers, "full").count == 2
    arrival = text[
        text.index("Sm90_tma_load<2, false>") : text.index("mbarrier_wait_cluster<d>(full")
    ]
    assert "full_bytes += 8192;" in arrival
    assert re.search(
        r"if \(lane == cta\)\s+mbarrier_arrive_expect_tx<d>\(full, full_arrived, full_bytes\);\s+"
        r"else if \(lane < 2 && \(0x3 >> lane & 1\)\)\s+"
        r"mbarrier_arrive_cluster<d>\(full, full_arrived, lane\);\s+full_bytes = 0;",
        arrival,
    )


@proc
def some_lanes(x: f32[2, 8] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for task in cuda_tasks(0, 1):
            z: barrier[2] @ CudaMbarrier
            for m in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                for h in cuda_threads(0, 1, unit=8 * cuda_thread):
                    for t in cuda_threads(0, 8, unit=cuda_thread):
                        x[m, t] = 1
                    Arrive(cuda_in_order) >> z[m] >> z[:]
            for m in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                Await(z[m], cuda_in_order, ~0)
                for t in cuda_threads(0, 8, unit=cuda_thread):
                    x[1 - m, t] += 1
            Fence(cuda_in_order, cuda_in_order)


def test_a_multicast_arrive_by_some_lanes():
    """Each of the 8 threads arrives in both CTAs: 16 arrivals a phase."""
    text = body(some_lanes)
    assert ring(some_lanes, "z").count == 16
    assert re.search(
        r"for \(unsigned to_cta = 0; to_cta < 2; \+\+to_cta\)\s+if \(0x3 >> to_cta & 1\)\s+"
        r"mbarrier_arrive_cluster<d>\(z, z_arrived, to_cta\);\s+\}?\s*\+\+z_arrived;",
        text,
    )


ROLES = [CudaWarpConfig("a", 1), CudaWarpConfig("b", 1)]


@proc
def turns(K: size, x: f32[32, K] @ CudaGmemLinear):
    with CudaDeviceFunction(warp_config=ROLES):
        for task in cuda_tasks(0, 1):
            turn: barrier[2] @ CudaMbarrier
            for k in seq(0, K):
                with CudaWarps(name="a"):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        x[t, k] = 1
                    Arrive(cuda_in_order) >> turn[0]
                with CudaWarps(name="b"):
                    Await(turn[0], cuda_in_order, ~0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        x[t, k] += 1
                    Arrive(cuda_in_order) >> turn[1]
                with CudaWarps(name="a"):
                    Await(turn[1], cuda_in_order, ~0)
            Fence(cuda_in_order, cuda_in_order)


def test_roles_take_turns_on_the_elements_of_one_barrier():
    """Each role arrives on its own element and awaits the other's: each counts for itself, and one
    number is enough."""
    text = body(turns)
    a, b = text.split("else {")
    assert "mbarrier_arrive<d>(turn, turn_arrived);" in a
    assert "mbarrier_wait<d>(turn + s * 1, turn_awaited);" in a
    assert "mbarrier_wait<d>(turn, turn_awaited);" in b
    assert "mbarrier_arrive<d>(turn + s * 1, turn_arrived);" in b


WARPS = "for w in cuda_threads(0, 2, unit=cuda_warp)"


@pytest.mark.parametrize(
    ("loop", "arrive", "wait", "own"),
    [
        (WARPS, ("z[w]",), ("z[w]",), True),
        (WARPS, ("z[w]",), ("z[1 - w]",), True),  # one to arrive on, and one to await
        (WARPS, ("z[w]", "z[w]"), ("z[w]", "z[w]"), True),
        ("if 0 < 1", ("z[k % 2]",), ("z[k % 2]",), False),
        ("if 0 < 1", ("z[0]", "z[1]"), ("z[0]", "z[1]"), False),
    ],
)
def test_a_thread_of_one_element_counts_in_a_scalar(loop, arrive, wait, own):
    arrives = [f"                    Arrive(cuda_in_order) >> {one}\n" for one in arrive]
    awaits = [f"                    Await({one}, cuda_in_order, ~0)\n" for one in wait]
    procedure = made(f"""
@proc
def some(K: size):
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            z: barrier[2] @ CudaMbarrier
            for k in seq(0, K):
                {loop}:
{"".join(arrives)}
                {loop}:
{"".join(awaits)}
            Fence(cuda_in_order, cuda_in_order)
""")
    (found,) = rings(procedure.facts, {"z": 4}).values()
    assert (found.arrives_on_one, found.awaits_one) == (own, own)


@proc
def waiters_of_their_own(x: f32[2, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=96):
        for task in cuda_tasks(0, 1):
            z: barrier[2] @ CudaMbarrier
            with CudaWarps(0, 1):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[0, t] = 1
                    x[1, t] = 1
                Arrive(cuda_in_order) >> z[0]
                Arrive(cuda_in_order) >> z[1]
            with CudaWarps(1, 2):
                Await(z[0], cuda_in_order, ~0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[0, t] += 1
            with CudaWarps(2, 3):
                Await(z[1], cuda_in_order, ~0)
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[1, t] += 1
            Fence(cuda_in_order, cuda_in_order)


def test_constant_elements_are_awaited_by_different_warps():
    text = body(waiters_of_their_own)
    assert "mbarrier_wait<d>(z, z_awaited);" in text
    assert "mbarrier_wait<d>(z + s * 1, z_awaited);" in text
    assert "mbarrier_arrive<d>(z + s * 1, z_arrived[1]);" in text  # one warp arrives on both


@proc
def unused(x: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            z: barrier[2] @ CudaMbarrier
            for t in cuda_threads(0, 32, unit=cuda_thread):
                x[t] = 1


def test_a_barrier_that_nobody_uses_is_nothing():
    assert "mbarrier" not in body(unused)


@proc
def one_element_for_both(K: size, x: f32[32, K] @ CudaGmemLinear):
    """Ping-pong: a, then b, then a, and a third role that has no turn."""
    with CudaDeviceFunction(warp_config=[*ROLES, CudaWarpConfig("c", 1)]):
        for task in cuda_tasks(0, 2):
            turn: barrier @ CudaMbarrier
            for k in seq(0, K):
                with CudaWarps(name="a"):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        if task == 0:
                            x[t, k] = 1
                    Arrive(cuda_in_order) >> turn
                with CudaWarps(name="b"):
                    Await(turn, cuda_in_order, ~0)
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        if task == 0:
                            x[t, k] += 1
                    Arrive(cuda_in_order) >> turn
                with CudaWarps(name="a"):
                    Await(turn, cuda_in_order, ~0)
            Fence(cuda_in_order, cuda_in_order)


def counting(text: str) -> list[str]:
    """What is done to the counters of `turn`, in program order."""
    found = re.findall(r"(\+\+turn_\w+|mbarrier_(?:arrive|wait)<d>\(turn, turn_\w+\))", text)
    return [f.replace("mbarrier_", "").replace("<d>(turn, ", " ").rstrip(")") for f in found]


A_TURN = ["arrive turn_arrived", "++turn_arrived"]
A_WAIT = ["wait turn_awaited", "++turn_awaited"]


def test_roles_that_share_an_element_count_what_the_others_do():
    """Arrival 2 k is by a, 2 k + 1 by b; each knows the numbers of its own by counting all."""
    text = body(one_element_for_both)
    a, b, c = (part for part in re.split(r"else (?:if \(warp < 2\) )?\{", text))
    assert counting(a) == [*A_TURN, "++turn_awaited", "++turn_arrived", *A_WAIT]
    assert counting(b) == ["++turn_arrived", *A_WAIT, *A_TURN, "++turn_awaited"]
    assert counting(c) == []  # it needs no number
    assert "x[(long long)(t) * K + (k)] += 1.0f;" in b  # the thread's own element, here and there


@proc
def warps_of_a_cta(K: size, x: f32[2, 32, K] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=64):
        for task in cuda_tasks(0, 1):
            turn: barrier[2] @ CudaMbarrier
            for m in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                for k in seq(0, K):
                    for w in cuda_threads(0, 1, unit=cuda_warp):
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            x[m, t, k] = 1
                        Arrive(cuda_in_order) >> turn[m]
                    with CudaWarps(1, 2):
                        Await(turn[m], cuda_in_order, ~0)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            x[m, t, k] += 1
                        Arrive(cuda_in_order) >> turn[m]
                    with CudaWarps(0, 1):
                        Await(turn[m], cuda_in_order, ~0)
            Fence(cuda_in_order, cuda_in_order)


def test_warps_that_share_an_element_count_in_the_other_branch():
    text = body(warps_of_a_cta)
    others = ["++turn_awaited", "++turn_arrived"]
    expected = [*A_TURN, "++turn_arrived", *A_WAIT, *A_TURN, *others, *A_WAIT, "++turn_awaited"]
    assert counting(text) == expected


@proc
def out_of_turn(K: size, x: f32[32, K] @ CudaGmemLinear):
    """b arrives first, and a has not waited for it."""
    with CudaDeviceFunction(warp_config=ROLES):
        for task in cuda_tasks(0, 1):
            turn: barrier @ CudaMbarrier
            other: barrier(turn) @ CudaMbarrier
            with CudaWarps(name="a"):
                Arrive(cuda_in_order) >> other
                Await(other, cuda_in_order, ~0)
                Arrive(cuda_in_order) >> turn
            with CudaWarps(name="b"):
                Await(turn, cuda_in_order, ~0)
            with CudaWarps(name="a"):
                Arrive(cuda_in_order) >> turn
            with CudaWarps(name="b"):
                Await(turn, cuda_in_order, ~0)
                Arrive(cuda_in_order) >> turn
                Await(turn, cuda_in_order, ~0)
            Fence(cuda_in_order, cuda_in_order)


def test_who_is_out_of_turn_is_a_hazard():
    assert "PHASE" in [hazard.kind.value for hazard in out_of_turn.check_at(K=1).hazards]


@proc
def part_of_the_turn(x: f32[64] @ CudaGmemLinear):
    """Two warps await, and one of them arrives next: the other may be late for ever."""
    with CudaDeviceFunction(warp_config=[CudaWarpConfig("a", 1), CudaWarpConfig("b", 2)]):
        for task in cuda_tasks(0, 1):
            turn: barrier @ CudaMbarrier
            with CudaWarps(name="a"):
                Arrive(cuda_in_order) >> turn
            with CudaWarps(name="b"):
                Await(turn, cuda_in_order, ~0)
            with CudaWarps(0, 1, name="b"):
                Arrive(cuda_in_order) >> turn
            with CudaWarps(name="a"):
                Await(turn, cuda_in_order, ~0)
            Fence(cuda_in_order, cuda_in_order)


@proc
def one_of_two(K: size, x: f32[2, 32] @ CudaGmemLinear):
    """z[k % 2] may be either element: warp 1 awaits both, warp 2 one of them."""
    with CudaDeviceFunction(blockDim=64):
        for task in cuda_tasks(0, 1):
            z: barrier[2] @ CudaMbarrier
            for k in seq(0, 2):
                Arrive(cuda_in_order) >> z[k % 2]
            with CudaWarps(0, 1):
                for k in seq(0, 2):
                    Await(z[k % 2], cuda_in_order, ~0)
            Arrive(cuda_in_order) >> z[1]
            with CudaWarps(1, 2):
                Await(z[1], cuda_in_order, ~0)
            Fence(cuda_in_order, cuda_in_order)


def signalled(several: bool, multicast: bool, name: str):
    """One load, or two that signal different barriers, or a multicast; the Arrive is on the
    timeline of this name."""
    timeline = SYNC_TIMELINES[name]
    targets = 2 if multicast else 1

    @proc
    def load(x: f32[2, 64, 32] @ CudaGmemLinear, y: f32[64, 32] @ CudaGmemLinear):
        x_map = x[:, :, :] @ Sm90_tensorMap(128, 1, 64 // targets, 32)
        with CudaDeviceFunction(clusterDim=targets, blockDim=64):
            for task in cuda_tasks(0, 1):
                s: f32[targets, 64, 32] @ Sm90_SmemSwizzled(128)
                r: f32[targets, 64, 32] @ Sm90_SmemSwizzled(128)
                full: barrier[targets] @ CudaMbarrier
                other: barrier[targets] @ CudaMbarrier
                with CudaWarps(0, 1):
                    if multicast:
                        (
                            Sm90_tma_multicast(
                                s[:, :, :],
                                x_map[0, :, :],
                                n=2,
                                rows=64,
                                cols=32,
                                box=(1, 32, 32),
                            )
                            >> full[:]
                        )
                        for m in cuda_threads(0, 2, unit=cuda_warp_in_cluster):
                            Arrive(timeline) >> full[m]
                    else:
                        if several:
                            (
                                Sm90_tma_load(
                                    r[0, :, :], x_map[1, :, :], rows=64, cols=32, box=(1, 64, 32)
                                )
                                >> other[0]
                            )
                            Arrive(cuda_temporal) >> other[0]
                        (
                            Sm90_tma_load(
                                s[0, :, :], x_map[0, :, :], rows=64, cols=32, box=(1, 64, 32)
                            )
                            >> full[0]
                        )
                        Arrive(timeline) >> full[0]
                for m in cuda_threads(0, targets, unit=cuda_cta_in_cluster):
                    Await(full[m], cuda_generic_and_async, ~0)
                    if several:
                        Await(other[m], cuda_generic_and_async, ~0)
                Fence(cuda_in_order, cuda_in_order)

    return load


def test_an_arrive_on_tmas_timeline_is_kept_by_the_bytes_of_the_loads():
    text = body(signalled(False, False, "tma_to_smem_async"))
    # The very text of a temporal one: the bytes are what it waits for.
    assert text == body(signalled(False, False, "cuda_temporal"))
    assert "mbarrier_arrive_expect_tx<d>(full, full_arrived, full_bytes);" in text


@pytest.mark.parametrize(("several", "multicast"), [(True, False), (False, True)])
def test_an_arrive_on_tmas_timeline_with_other_loads_is_refused(several, multicast):
    """The phase says nothing of loads that signal another barrier, nor of bytes in another CTA."""
    kernel = signalled(several, multicast, "tma_to_smem_async")
    with pytest.raises(ExoGpuError) as refused:
        kernel.emit(unchecked=True)
    assert [d.code for d in refused.value.diagnostics] == ["G803"]
    assert "TMA loads" in refused.value.diagnostics[0].message


@pytest.mark.parametrize("procedure", [part_of_the_turn, one_of_two], ids=lambda p: p.name)
def test_different_threads_on_one_element_are_refused(procedure):
    with pytest.raises(ExoGpuError) as refused:
        procedure.emit(unchecked=True)
    assert [d.code for d in refused.value.diagnostics] == ["G807"]


# --- CTAs that do not arrive ----------------------------------------------------------------------

SOME = """
@proc
def some(K: size, x: f32[K, CTAS, 32] @ CudaGmemLinear, y: f32[K, CTAS, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=CTAS, blockDim=32):
        for task in cuda_tasks(0, 1):
            part: f32[CTAS, 32] @ CudaSmemLinear
            z: barrier[EXTENT] @ CudaMbarrier
            for k in seq(0, K):
                for c in cuda_threads(0, CTAS, unit=cuda_cta_in_cluster):
                    if CONDITION:
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            Sm80_cp_async_copy(part[c, t : t + 1], x[k, c, t : t + 1], n=1)
                        Arrive(FIRST) >> z[INDEX]
                        Await(z[INDEX], cuda_in_order, ~0)
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            y[k, c, t] = part[c, 31 - t]
                Fence(cuda_in_order, cuda_in_order)
"""


@pytest.mark.parametrize(
    ("ctas", "extent", "index", "condition"),
    [
        (2, 2, "c", "c == 0"),
        (2, 2, "c", "c == 1"),
        (16, 16, "c", "c == 3"),
        (4, 2, "c / 2", "c % 2 == 0"),
        (4, 2, "c / 2", "c % 2 == 1"),
    ],
)
@pytest.mark.parametrize("first", ["Sm80_generic", "Sm80_cp_async"])
def test_the_ctas_that_arrive_are_those_that_the_condition_lets(
    ctas, extent, index, condition, first
):
    """Each tells itself alone; of others an Arrive was emitted, for which they never waited."""
    fields = {"EXTENT": extent, "INDEX": index, "CONDITION": condition, "FIRST": first}
    source = SOME.replace("CTAS", str(ctas))
    for name, value in fields.items():
        source = source.replace(name, str(value))
    text = body(made(source))
    how = {"Sm80_generic": "mbarrier_arrive<d>", "Sm80_cp_async": "mbarrier_arrive_cp_async<d>"}
    assert how[first] in text
    assert "mbarrier_arrive_cluster" not in text and "mbarrier_wait<d>" in text


@proc
def consumers_in_turns(
    M: size, x: f32[2 * M, 8, 32] @ CudaGmemLinear, y: f32[M, 8, 32] @ CudaGmemLinear
):
    """One consumer awaits the first phase, another the second alone, and reads both slots."""
    x_map = x[:, :, :] @ Sm90_tensorMap(0, 1, 8, 32)
    with CudaDeviceFunction(blockDim=96):
        for m in cuda_tasks(0, M):
            tile: f32[2, 8, 32] @ CudaSmemLinear
            full: barrier @ CudaMbarrier
            for k in range(2):
                with CudaWarps(0, 1):
                    (
                        Sm90_tma_load(
                            tile[k, :, :],
                            x_map[2 * m + k, :, :],
                            rows=8,
                            cols=32,
                            box=(1, 8, 32),
                            swizzle=0,
                        )
                        >> full
                    )
                    Arrive(tma_to_smem_async) >> full
                with CudaWarps(1 + k, 2 + k):
                    Await(full, cuda_in_order, ~0)
                    if k == 1:
                        for t in cuda_threads(0, 32, unit=cuda_thread):
                            for i in seq(0, 8):
                                y[m, i, t] = tile[0, i, 31 - t]
            Fence(cuda_in_order, cuda_in_order)


def test_an_arrive_completes_no_loads_of_phases_that_others_await():
    """The second phase's bytes are its own loads alone: the first may still be landing."""
    with pytest.raises(ExoGpuError, match=r"G803.*waits for TMA loads"):
        consumers_in_turns.emit()
