"""Phases that several roles share, and named barriers: proved, emitted as one mbarrier or barrier,
and each rule is needed."""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import replace

import pytest

from exogpu.api import Procedure
from exogpu.codegen.mbarriers import rings
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.diagnostics.verdict import Policy
from exogpu.ir.nodes import Await, Stmt
from exogpu.ir.walk import map_blocks
from exogpu.machine import literal
from tests.codegen import role_kernels
from tests.codegen.role_kernels import (
    across_ctas,
    handed_over,
    in_turns,
    two_by_two,
    two_consumers,
)
from tests.texts import made

SOURCE = inspect.getsource(role_kernels)


def text_of(name: str) -> str:
    """The text of a kernel of `role_kernels`, with a ring of two slots."""
    start = SOURCE.index(f"def {name}")
    found = SOURCE[start : SOURCE.index("\n\n\n", start)]
    if "@proc" in found:
        found = textwrap.dedent(found[found.index("def kernel") - 4 : found.index("    return ")])
    roles = SOURCE[SOURCE.index("[\n    CudaWarp") : SOURCE.index("]\n") + 1]
    roles = " ".join(roles.split())
    return "RING = 2\n\n\n@proc\n" + found.replace("warp_config=ROLES", f"warp_config={roles}")


def altered(name: str, old: str, new: str) -> Procedure:
    """The kernel with one line in the place of another."""
    text = text_of(name)
    assert text.count(old) == 1, old
    return made(text.replace(old, new))


@pytest.mark.parametrize(
    "procedure", [two_consumers(3), two_by_two(2), across_ctas(2), handed_over, in_turns]
)
def test_roles_are_proved_for_all_sizes(procedure: Procedure) -> None:
    assert procedure.check().word == "proved"


def kinds_at(procedure: Procedure, **sizes: int) -> set[str]:
    """The hazards of a run of the literal machine."""
    found = literal.run(procedure.amir(Policy.PTX), sizes, collect=True)
    return {violation.kind.value for violation in found}


AT = {"two_consumers": {"T": 1, "K": 5}, "handed_over": {"T": 1, "K": 3}}

MUTANTS = [
    ("two_consumers", "Await(full[0], cuda_in_order, ~0)", "pass", "RAW"),
    ("two_consumers", "Await(full[1], cuda_in_order, ~0)", "pass", "RAW"),
    ("two_consumers", "Arrive(cuda_in_order) >> empty[1]", "pass", "DEADLOCK"),
    ("two_consumers", "Arrive(cuda_in_order) >> full[:]", "pass", "DEADLOCK"),
    (
        "two_consumers",
        "Arrive(cuda_in_order) >> full[:]",
        "Arrive(cuda_temporal) >> full[:]",
        "RAW",
    ),
    ("two_consumers", "Await(full[1],", "Await(full[0],", "DEADLOCK"),
    ("two_consumers", "~RING", "~(RING + 1)", "WAR"),
    ("two_consumers", "~RING", "~(RING - 1)", None),
    (
        "two_consumers",
        "Arrive(cuda_in_order) >> empty[1]",
        "Arrive(cuda_temporal) >> empty[1]",
        "WAR",
    ),
    ("handed_over", "Await(empty, cuda_in_order)", "pass", "WAR"),
    ("handed_over", "Await(full, cuda_in_order)", "pass", "RAW"),
    ("handed_over", "Arrive(cuda_in_order) >> full", "pass", "DEADLOCK"),
    ("handed_over", "if k < K - 1:", "if k < K:", "BARRIER"),
]


@pytest.mark.parametrize(("name", "old", "new", "kind"), MUTANTS)
def test_each_statement_is_needed(name: str, old: str, new: str, kind: str | None) -> None:
    kinds = kinds_at(altered(name, old, new), **AT[name])
    assert kind in kinds if kind else not kinds


def test_who_comes_back_too_early_is_a_hazard_of_phases() -> None:
    """Nothing is accessed: a comes to the next phase of a named barrier before c has left this one;
    and of two roles that give a slot back, a waits for one alone."""
    text = text_of("handed_over")
    for line in ("s[t] = x[i, k, t]", "y[i, k, t] = s[31 - t] + 1.0"):
        text = text.replace(line, "pass")
    twice = text.replace("if k > 0:", "if k < 0:").replace("if k < K - 1:", "if k < 0:")
    assert kinds_at(made(twice), T=1, K=3) == {"PHASE"}
    text = re.sub(r"s\[k % RING, .*\] = x.*", "pass", text_of("two_consumers"))
    text = re.sub(r"[yz]\[i, k, t\] = .*", "pass", text)
    alone = text.replace("empty: barrier(full)[2]", "empty: barrier(full)").replace(
        ">> empty[1]", ""
    )
    alone = alone.replace("Arrive(cuda_in_order) \n", "pass\n")
    alone = alone.replace("empty[:]", "empty").replace("empty[0]", "empty")
    assert kinds_at(made(alone), T=1, K=8) == {"PHASE"}


def test_all_elements_are_one_mbarrier_that_counts_all_roles() -> None:
    """b is one warp and c two: three arrivals a phase, and a ring of the depth of both."""
    procedure = two_consumers(3)
    found = {name.name: ring for name, ring in rings(procedure.facts).items()}
    assert [(found[n].count, found[n].elements, found[n].depth) for n in ("full", "empty")] == [
        (1, 1, 4),
        (3, 1, 4),
    ]
    text = procedure.emit(unchecked=True)[0].source
    assert text.count("mbarrier_arrive<4>(full, full_arrived);") == 1
    assert text.count("mbarrier_wait<4>(full, full_awaited);") == 2


def test_a_named_barrier_counts_who_arrives_and_who_waits() -> None:
    text = handed_over.emit(unchecked=True)[0].source
    found = re.findall(r'barrier\.cta\.(\w+)\.aligned %0, (\d+);" :: "r"\((\d+)\)', text)
    assert sorted(found) == [
        ("arrive", "96", "14"),
        ("arrive", "96", "15"),
        ("sync", "96", "14"),
        ("sync", "96", "15"),
    ]


HEAD = """
@proc
def kernel(K: size):
    with CudaDeviceFunction(blockDim=128):
        for i in cuda_tasks(0, 1):
            z: barrier[2] @ CudaNamedBarrier
            m: barrier[2] @ CudaMbarrier
            n: barrier[2, 2] @ CudaMbarrier
"""


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["Arrive(cuda_in_order) >> m[:]", "Await(m[:], cuda_in_order)"], "D520"),
        (["Arrive(cuda_in_order) >> m[0]", "Await(m[0:1], cuda_in_order)"], None),
        (
            [
                "Arrive(cuda_in_order) >> n[:, 0]",
                "Arrive(cuda_in_order) >> n[0, :]",
                "Await(n[0, 0], cuda_in_order)",
            ],
            "D520",
        ),
        (["Arrive(cuda_in_order) >> m[:]", "Arrive(cuda_in_order) >> m[1]"], "D507"),
        (["Arrive(cuda_in_order) >> z[0]", "Await(z[0], cuda_in_order)"], "D521"),
        (
            [
                "with CudaWarps(0, 1):",
                "    Arrive(cuda_in_order) >> z[0]",
                "with CudaWarps(1, 2):",
                "    Await(z[0], cuda_in_order)",
                "with CudaWarps(2, 4):",
                "    Await(z[0], cuda_in_order)",
            ],
            "D509",
        ),
        (
            [
                "for t in cuda_threads(0, 1, unit=cuda_thread):",
                "    Arrive(cuda_in_order) >> z[0]",
            ],
            "D521",
        ),
        (["Arrive(cuda_in_order) >> z[:]"], "D521"),
        (["Await(z[0], cuda_in_order, ~1)"], "T241"),
    ],
)
def test_what_no_mbarrier_or_barrier_counts_is_refused(lines: list[str], code: str | None) -> None:
    text = HEAD + "".join(f"            {line}\n" for line in lines)
    found = set()
    try:
        procedure = made(text)
        assert procedure.facts and procedure.amir(Policy.PTX)
    except ExoGpuError as error:
        found = {d.code for d in error.diagnostics}
    assert found == ({code} if code else set())


def test_a_schedule_gives_no_named_barrier_a_skip() -> None:
    """Steps of schedules make statements that no text has."""

    def skipping(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Await):
            return replace(stmt, n=~1)
        return map_blocks(stmt, lambda block: tuple(map(skipping, block)))

    ir = handed_over.ir
    changed = Procedure("handed_over", replace(ir, body=tuple(map(skipping, ir.body))), ())
    with pytest.raises(ExoGpuError) as refused:
        assert changed.facts
    assert {d.code for d in refused.value.diagnostics} == {"D521"}


def test_slots_are_of_the_side_that_is_on_all_elements() -> None:
    whole = altered("two_consumers", "s[k % RING, t] = x", "s[slot(full), t] = x")
    assert kinds_at(whole, T=1, K=5) == set()
    own = altered("two_consumers", "= s[k % RING, 31 - t]", "= s[slot(empty), 31 - t]")
    with pytest.raises(ExoGpuError) as refused:
        assert own.facts
    assert {d.code for d in refused.value.diagnostics} == {"D519"}
