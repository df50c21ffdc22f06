"""Every file of `tests/cases/collective` draws exactly the diagnostics that its comments expect.

Decisions `divergence`, `scalar-statements` and `solitary-mechanisms`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exogpu.analysis.inline import inline
from exogpu.api import collecting, proc
from exogpu.frontend.instructions import instr
from exogpu.hw.language import LANGUAGE
from tests.analysis.reading import judge

CASES = sorted((Path(__file__).parent.parent / "cases" / "collective").glob("*.py"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_the_comments_say_what_is_found(path: Path) -> None:
    text = path.read_text()
    expected = []
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.search(r"# expect: (.+)$", line):
            expected += [(number, code) for code in match.group(1).split()]
    with collecting() as found:
        names = {"__name__": path.stem, "proc": proc, "instr": instr, **LANGUAGE}
        exec(compile(text, str(path), "exec"), names)
    drawn = []
    for procedure in found:
        assert procedure.ir is not None, procedure.diagnostics
        drawn += [(d.span.line, d.code) for d in judge(inline(procedure.ir))]
    assert sorted(drawn) == sorted(expected)


def test_a_scope_that_cannot_be_made_is_told_once() -> None:
    """What stands in it is executed by nobody that is known: no remedy of it would be right."""

    @proc
    def too_many(x: f32[128] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for task in cuda_tasks(0, 1):
                for t in cuda_threads(0, 128, unit=cuda_thread):
                    x[t] = 0.0

    assert [found.code for found in too_many.diagnostics] == ["C402"]
