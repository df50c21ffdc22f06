"""What a reader is told of obligations and accesses, in an engineer's words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from exogpu.cli.commands import app
from exogpu.hw.access_names import CALLED, accesses_on, explained
from exogpu.hw.timelines import SHORT, SYNC_TIMELINES
from exogpu.ir.types import QualTL

KERNEL = """from __future__ import annotations
from exogpu import *


@proc
def turned(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            tile: f32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 64, unit=cuda_thread):
                tile[t] = x[m, t]
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 64, unit=cuda_thread):
                y[m, t] = tile[63 - t]
            LAST
"""
LAST = "Fence(cuda_in_order, cuda_in_order)"


@pytest.fixture
def written(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "kernel.py"
        path.write_text(text)
        return str(path)

    return write


def told(*arguments: str) -> str:
    return CliRunner().invoke(app, [*arguments]).output


def test_an_obligation_is_a_plain_sentence_and_its_formal_text_on_demand(written):
    file = written(KERNEL.replace("LAST", LAST))
    plain = told("why", f"{file}:12")
    assert "Line 14 sees what line 11 wrote to tile, thanks to the Fence at line 12." in plain
    assert "wherever both touch one element" not in plain
    assert "wherever both touch one element" in told("why", f"{file}:12", "--formal")


def test_freed_memory_is_shown_where_it_ends_and_who_takes_it(written):
    output = told("check", written(KERNEL.replace("            LAST\n", "")))
    by = "the next task of this CTA"
    assert f"kernel.py:14:17: where {by} takes its memory (declared at line 9)" in output
    assert f"is not ordered before {by} (there is one from M = 2 on) overwrites it" in output
    assert "kernel.py:9:" not in output
    # Before a second allocation, it ends there.
    more = "other: f32[64] @ CudaSmemLinear\n            pass"
    output = told("check", written(KERNEL.replace("LAST", more)))
    assert "kernel.py:15:13: where other takes its memory (declared at line 9)" in output
    assert "is not ordered before other overwrites it" in output


@pytest.mark.parametrize(
    ("old", "new", "by"),
    [
        ("cuda_tasks(0, M)", "cuda_tasks(0, 1)", "the next CTA on this SM"),
        ("M: size,", "M: size, N: size,", "the next task of this CTA (there is one from M = 2 on)"),
        (
            "in cuda_tasks(0, M):\n",
            "in cuda_tasks(0, (M + 6) / 7):\n",
            "the next task of this CTA (there is one from M = 8 on)",
        ),
        (
            "    with CudaDeviceFunction",
            "    assert M >= 2\n    with CudaDeviceFunction",
            "the next task of this CTA",
        ),
        (
            "            tile: f32[64] @ CudaSmemLinear",
            "          for k in seq(0, M):\n            tile: f32[64] @ CudaSmemLinear",
            "the next iteration of the loop at line 9 (there is one from M = 2 on)",
        ),
    ],
    ids=["one task", "two sizes", "tiles", "two tasks at least", "a loop"],
)
def test_who_overwrites_what_is_still_read(written, old, new, by):
    text = KERNEL.replace("            LAST\n", "").replace(old, new)
    assert f"access, is not ordered before {by} overwrites it" in told("check", written(text))


@pytest.mark.slow
def test_memory_of_the_host_is_overwritten_by_nobody_in_particular():
    cases = Path(__file__).parents[1] / "cases" / "verdicts"
    hosts = [p for p in cases.glob("*.py") if "@ DRAM" in p.read_text()]
    outputs = [told("check", str(path)) for path in hosts if "FREE" in path.read_text()]
    assert any("is not ordered before its memory ends" in output for output in outputs)


def test_an_arrive_is_no_access_of_memory(written):
    body = KERNEL[: KERNEL.index("            tile")] + "            z: barrier @ CudaMbarrier\n"
    roles = """            with CudaWarps(0, 1):
                Arrive(cuda_in_order) >> z
            with CudaWarps(1, 2):
                Await(z, cuda_in_order, ~0)
"""
    output = told("check", written(body + roles))
    assert "hazard H704 FREE on z" in output
    assert "the Arrive on z is not ordered before the next task of this CTA" in output
    assert "ordinary" not in output and "cuda2" not in output


VECTOR = """from __future__ import annotations
from exogpu import *
from exogpu.isa.cuda import *


@proc
def copied(n: size, x: f32[n] @ CudaGmemLinear):
    assert n % 2 == 0
    with CudaDeviceFunction(blockDim=32):
        for b in cuda_tasks(0, (n + 127) / 128):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                i = 128 * b + 4 * t
                if i < n:
                    u: f32[4]
                    cuda_load(u[:], x[i : i + 4])
"""


@pytest.mark.parametrize("at", [(), ("--at", "n=2")], ids=["for all sizes", "at a size"])
def test_what_is_out_of_bounds_starts_at_the_line_of_the_user(written, at):
    output = told("check", written(VECTOR), *at)
    first = "hazard B601 BOUNDS on x at n=2\n  "
    assert first in output
    assert (
        output[output.index(first) + len(first) :]
        .partition("\n")[0]
        .endswith("kernel.py:15:21: the access outside of it")
    )
    assert "isa/cuda.py" not in output and "src" not in output
    assert "        at b = 0, t = 0\n" in output


def test_a_deadlock_names_the_arrive_that_does_not_come(written):
    body = KERNEL[: KERNEL.index("            tile")] + "            z: barrier @ CudaMbarrier\n"
    wait, arrive = "Await(z, cuda_in_order, ~0)\n", "Arrive(cuda_in_order) >> z\n"
    output = told("check", written(f"{body}            {wait}            {arrive}"))
    assert (
        "this Await waits for Arrive number 1 on z, and none came before: the Arrive at line 11 "
        "comes after it" in output
    )
    output = told("check", written(f"{body}            {arrive}" + f"            {wait}" * 2))
    assert (
        "waits for Arrive number 2 on z, and 1 Arrive came before: the Arrive at line 10 does "
        "not come so often by then" in output
    )


def test_every_line_of_a_call_is_underlined(written):
    text = KERNEL.replace("tile[63 - t]", "(\n                    tile[63 - t]\n                )")
    text = text.replace(f"            {LAST}\n", "", 1).replace("            LAST\n", "")
    output = told("check", written(text))
    at = output.index("tile[63 - t]")
    assert output[at:].splitlines()[1].rstrip().endswith("^^^^^^^^^^^^")


def test_every_timeline_is_explained():
    assert set(CALLED) == set(QualTL)
    for name in (*SHORT, *(tl.value for tl in QualTL), *SYNC_TIMELINES):
        output = told("explain", name)
        assert explained(name) is not None and name in output
        assert max(map(len, output.splitlines())) < 100
    assert "TMA load" in told("explain", "tmas")
    assert told("explain", "RAW") == told("explain", "H701")
    assert "did you mean tmaS?" in told("explain", "tmaX")


def test_names_stand_in_brackets_once():
    both = frozenset({QualTL.CUDA1, QualTL.CUDA2})
    assert accesses_on(both) == "ordinary accesses (cuda1, cuda2)"
    assert accesses_on(both | {QualTL.TMA_S}, both) == "ordinary accesses and TMA loads (tmaS)"
    assert accesses_on(frozenset()) == ""


def test_a_page_has_a_legend_and_every_formal_claim(written, tmp_path):
    file = written(KERNEL.replace("LAST", LAST))
    told("report", file, "-o", str(tmp_path / "out"))
    page = (tmp_path / "out" / "turned" / "report.html").read_text()
    assert re.search(r"<dt><code>cuda2</code> ordinary memory access</dt>", page)
    assert page.count("<summary>formally</summary>") == page.count("<tr data-row=")
    assert not re.search(r"\((\w+) = \1 [+-] \d", page)


def test_the_documentation_has_the_words_of_messages():
    page = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
    for short, timeline in SHORT.items():
        row = f"| {short} | `{timeline.value}` | {CALLED[timeline].title} | "
        assert row in page, row


def test_an_access_has_one_line_wherever_it_is_told(written, tmp_path):
    """That of its statement, of which any line may be asked for."""
    call = "(\n                    tile[63 - t]\n                )"
    file = written(KERNEL.replace("tile[63 - t]", call).replace("LAST", LAST))
    for line in (14, 15, 16):
        assert "  line 14: y[m, t] = tile[63 - t]\n" in told("why", f"{file}:{line}")
    told("report", file, "-o", str(tmp_path / "out"))
    text = (tmp_path / "out" / "turned" / "report.md").read_text()
    assert "Line 14 sees what line 11 wrote to tile" in text and "Line 15" not in text


SPREAD = """            Fence(
                cuda_in_order,  # before
                cuda_generic_and_async,
            )
"""


def test_what_is_named_can_be_pasted(written):
    """A statement of several lines is told on one, and put in its place it is as good."""
    text = KERNEL.replace(f"            {LAST}\n", "").replace("            LAST\n", SPREAD)
    text = text.replace("            for t", f"            {LAST}\n            for t")
    file = written(text)
    at = text[: text.index(SPREAD)].count("\n") + 1
    assert f"  line {at}: Fence(cuda_in_order, cuda_generic_and_async)\n" in told(
        "why", f"{file}:{at}"
    )
    output = told("check", file, "--redundant")
    assert "refuted" not in output
    enough = re.findall(r"enough: (.*)\n", output)
    assert enough
    for weaker in enough:
        pasted = text.replace(SPREAD, f"            {weaker}\n")
        assert "proved for all sizes" in told("check", written(pasted), "--no-cache")
