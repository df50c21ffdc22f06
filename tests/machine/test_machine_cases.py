"""Every file of `tests/cases/machine` gets exactly the verdicts that its comments state.

`x = make(...)  # safe`, or `# refuted: KIND variable line line, ...` with the lines of the first
and the second access; `ptx` or `paper` in front restricts a statement to that policy, and
`at n=3 n=4` says for which sizes it holds (by default n=4 where there is a size n).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exogpu.api import Procedure, collecting
from exogpu.diagnostics.verdict import Policy

CASES = Path(__file__).parent.parent / "cases" / "machine"
_EXPECTATION = re.compile(
    r"(?:(?P<policy>ptx|paper) )?(?P<word>safe|refuted)"
    r"(?P<at>(?: at)?(?: n=\d+)*)(?:: (?P<what>.+))?"
)


def expectations() -> list[tuple[str, str, Policy, int, frozenset[tuple[str, ...]]]]:
    found = []
    for path in sorted(CASES.glob("*.py")):
        for name, comment in re.findall(r"^(\w+) = .*# (.+)$", path.read_text(), re.MULTILINE):
            for part in comment.split("; "):
                match = _EXPECTATION.fullmatch(part)
                assert match, f"{path.name}: {part!r} is no expectation"
                policies = [Policy(match["policy"])] if match["policy"] else list(Policy)
                sizes = [int(n) for n in re.findall(r"n=(\d+)", match["at"])] or [4]
                hazards = frozenset(
                    tuple(h.split()) for h in (match["what"] or "").split(", ") if h
                )
                assert (match["word"] == "refuted") == bool(hazards)
                found += [
                    (path.stem, name, policy, n, hazards) for policy in policies for n in sizes
                ]
    return found


def load(stem: str) -> dict[str, Procedure]:
    path = CASES / f"{stem}.py"
    with collecting() as found:
        exec(compile(path.read_text(), str(path), "exec"), {"__name__": stem})
    return {p.name: p for p in found}


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
