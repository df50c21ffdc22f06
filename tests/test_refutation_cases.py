"""Every file of `tests/cases/refutations` is refuted as its comments state, and mended as it says.

`# proved NAME`, or `# refuted NAME: KIND ... | REPAIR | AFTER | CONDITION`: the kinds of its
hazards; a part of what the first one's repair says, in which `{place}` is the line that ends in
`# [place]`; the verdict on the text with that repair made as it is written; and the condition on
sizes.  What is empty is not asked for; further lines of one statement are indented.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from exogpu.api import Procedure, collecting
from exogpu.cli.lsp.fixes import apply_change
from exogpu.diagnostics.verdict import Verdict
from exogpu.report.render_verdict import by_repair

CASES = Path(__file__).parent / "cases" / "refutations"
EXPECTED = re.compile(r"^# (proved|refuted) (\w+)(?:: (.+))?$", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    path: Path
    name: str
    word: str
    kinds: frozenset[str] = frozenset()
    repair: str = ""
    after: str = ""
    condition: str = ""


def cases() -> list[Case]:
    found = []
    for path in sorted(CASES.glob("*.py")):
        text = path.read_text()
        lines = {
            name: number
            for number, line in enumerate(text.splitlines(), 1)
            for name in re.findall(r"# \[(\w+)\]$", line)
        }
        for word, name, rest in EXPECTED.findall(re.sub(r"\n#    +", " ", text)):
            kinds, *asked = [part.strip() for part in rest.split("|")]
            repair, after, condition = [*asked, "", "", ""][:3]
            for place, line in lines.items():
                repair = repair.replace(f"{{{place}}}", str(line))
            told = frozenset(kinds.split())
            found.append(Case(path, name, word, told, repair, after, condition))
    return found


def load(text: str, path: Path) -> dict[str, Procedure]:
    with collecting() as found:
        exec(compile(text, str(path), "exec"), {"__name__": path.stem})
    return {p.name: p for p in found}


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_comment_holds(case: Case, tmp_path: Path) -> None:
    verdict = load(case.path.read_text(), case.path)[case.name].check()
    assert verdict.word == case.word and not verdict.note
    assert {h.kind.value for h in verdict.hazards} == case.kinds
    if case.word == "refuted":
        assert case.repair in verdict.hazards[0].help
        assert not case.condition or verdict.condition == case.condition
    if case.after:
        assert mended(case, verdict, tmp_path).word == case.after


def mended(case: Case, verdict: Verdict, folder: Path) -> Verdict:
    """The verdict on the text with the repair of the first hazard made."""
    change, *_ = verdict.hazards[0].changes
    copy = folder / case.path.name
    copy.write_text(apply_change(case.path.read_text(), change))
    return load(copy.read_text(), copy)[case.name].check()


def test_hazards_of_one_missing_fence_are_one_finding() -> None:
    path = CASES / "cp_async_ring.py"
    verdict = load(path.read_text(), path)["no_fence"].check()
    assert len(verdict.hazards) == 6 and len(by_repair(verdict.hazards)) == 1
    said = str(verdict)
    assert said.count("repair: ") == 1 and "the same repair is for 5 more hazards:" in said
    assert "    WAR on As[0, 0, 0] at M=32, N=32, K=128: lines " in said


def test_there_are_cases() -> None:
    assert len(cases()) > 24 and len({case.name for case in cases()}) == len(cases())
