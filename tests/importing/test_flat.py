"""Flattened loops, and other conditions that are no affine expressions: any values are covered."""

from __future__ import annotations

import re

import pytest

from exogpu.imported import UnimportedKernel, import_ttgir
from exogpu.importing.ptx_products import touched_accumulator
from exogpu.importing.read_ttgir import SELECTED
from tests.importing.made import FURTHER

MADE = {made.kernel: made for made in FURTHER}


def without(name: str, pattern: str, nth: int = -1) -> str:
    """A kernel without one of the lines that have a pattern, counted from the last with -1."""
    lines = MADE[name].text.split("\n")
    del lines[[at for at, line in enumerate(lines) if re.search(pattern, line)][nth]]
    return "\n".join(lines)


@pytest.mark.parametrize("name", ["multiply_flat", "scale_some_rows", "multiply_tiles"])
def test_it_is_proved(name):
    verdict = import_ttgir(MADE[name].text, ptx=MADE[name].ptx).check(timeout=60)
    assert verdict.word == "proved", str(verdict)


def test_selected_accumulators_are_an_assumption_without_ptx():
    (with_ptx, without_ptx) = (
        import_ttgir(MADE["multiply_tiles"].text, ptx=ptx).check(timeout=60).assumptions
        for ptx in (MADE["multiply_tiles"].ptx, "")
    )
    assert SELECTED in without_ptx and SELECTED not in with_ptx


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [(r"fence_async_shared", "RAW"), (r"async_tma_store_wait.*read_only", "WAR")],
)
def test_a_bug_is_found_with_numbers_for_the_argument_that_tells_a_tile_s_end(pattern, kind):
    verdict = import_ttgir(without("multiply_tiles", pattern)).check(timeout=120)
    assert verdict.word == "refuted", verdict.reason
    hazard = verdict.hazards[0]
    assert hazard.kind.value == kind and hazard.sizes["K"] == 1 and hazard.first is not None
    line = MADE["multiply_tiles"].path.parents[1] / "kernels" / "flat.py"
    stored = next(
        number
        for number, text in enumerate(line.read_text().splitlines(), 1)
        if "c.store([tile * TILE" in text
    )
    assert {hazard.first.span.line, hazard.second.span.line} == {stored}


def test_what_fails_for_some_data_is_undecided_and_says_where():
    """Without the barrier at the end of an iteration the next one's store overtakes its load."""
    text = without("scale_some_rows", r"ttg\.barrier", 0)
    verdict = import_ttgir(text).check(timeout=60)
    assert verdict.word == "undecided" and "conditions that are data" in verdict.reason
    assert re.search(r"WAR of lines \d+ and \d+", verdict.reason)


def test_a_group_that_data_decide_is_not_counted():
    text = MADE["multiply_tiles"].text
    text = re.sub(r"(async_tma_store_wait \{pendings = )0", r"\g<1>1", text)
    kernel = import_ttgir(text)
    assert isinstance(kernel, UnimportedKernel)
    assert kernel.reason.code == "K104" and "waits for all groups but 1" in kernel.reason.message


PTX = """
    mov.b32 %r1, 0;
$L__BB0_1:
    wgmma.mma_async.sync.aligned.m64n8k16 {{%r1, %r2}}, %rd1, %rd2, p, 1;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned {pending};
    @%p1 bra $L__BB0_3;
    {access}
    wgmma.wait_group.sync.aligned 0;
$L__BB0_3:
    @%p2 bra $L__BB0_1;
    wgmma.wait_group.sync.aligned 0;
    add.f32 %r2, %r2, %r3;
    ret;
"""


@pytest.mark.parametrize(
    ("pending", "access", "touched"),
    [
        (1, "selp.b32 %r1, %r4, %r1, %p3;", True),
        (0, "selp.b32 %r1, %r4, %r1, %p3;", False),
        (1, "mov.b32 %r4, 0;", False),
    ],
)
def test_accumulators_in_ptx_are_followed_through_branches(pending, access, touched):
    found = touched_accumulator(PTX.format(pending=pending, access=access))
    assert found == (access if touched else None)


def test_an_accumulator_is_touched_by_the_next_iteration():
    text = PTX.format(pending=1, access="mov.b32 %r4, 0;")
    text = text.replace("$L__BB0_1:", "$L__BB0_1:\n    mov.b32 %r2, 0;")
    assert touched_accumulator(text) == "mov.b32 %r2, 0;"
