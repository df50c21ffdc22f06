"""The programs of `tests/cases/machine`, and what their comments say of them."""

from __future__ import annotations

import re
from pathlib import Path

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
