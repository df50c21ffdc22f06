"""Every file of `tests/cases/machine` gets exactly the verdicts that its comments state.

`x = make(...)  # safe`, or `# refuted: KIND variable line line, ...` with the lines of the first
and the second access; `ptx` or `paper` in front restricts a statement to that policy, and
`at n=3 n=4` says for which sizes it holds (by default n=4 where there is a size n).
"""

from __future__ import annotations

import pytest

from tests.machine.case_files import expectations, load


@pytest.mark.parametrize(("stem", "name", "policy", "n", "hazards"), expectations())
def test_the_comment_holds(stem, name, policy, n, hazards) -> None:
    procedure = load(stem)[name]
    sizes = {size: n for size in procedure.size_names}
    verdict = procedure.check_at(policy=policy, **sizes)
    drawn = {
        (
            h.kind.value,
            h.variable,
            str(h.first.span.line) if h.first else "-",
            str(h.second.span.line),
        )
        for h in verdict.hazards
    }
    assert (verdict.word, drawn) == ("refuted" if hazards else "proved", hazards)


def test_there_are_cases() -> None:
    assert len(expectations()) > 12
