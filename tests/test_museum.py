"""Every procedure of `examples/museum` gets the verdicts that the comments under it state.

    bug = make("bug")
    # ptx refuted at K=96: WAR tile read load, ...
    # ptx safe iff K <= 64
    # ptx safe at K=64
    # paper safe

`ptx` or `paper` in front restricts a statement to that policy.  `refuted` is the answer for all
sizes: the smallest sizes at which it fails, and all hazards there, each with its kind, its variable
and the lines of the two accesses, which bear these names as comments, `# [read]`; `-` is nothing.
`safe` is the answer for all sizes, or at the sizes given; `safe iff` is what a refutation says of
the sizes at which nothing is wrong.  Deeper lines continue a statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from exogpu.api import Procedure, collecting
from exogpu.diagnostics.hazards import Hazard, HazardKind
from exogpu.diagnostics.verdict import Policy, Verdict
from exogpu.symbolic.search.analysis import analyse

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "examples" / "museum").glob("*.py"))
_PROCEDURE = re.compile(r"^(\w+) = make\((?:[^()]|\n)*\)\n((?:# .+\n)+)", re.MULTILINE)
_STATEMENT = re.compile(
    r"(?:(?P<policy>ptx|paper) )?(?P<word>safe|refuted)"
    r"(?: at(?P<sizes>(?: \w+=\d+)+))?(?:: (?P<hazards>.+)| iff (?P<condition>.+))?"
)


@dataclass(frozen=True)
class Expectation:
    """One statement about one procedure; `hazards` have a kind, a variable and two lines."""

    file: Path
    name: str
    policy: Policy
    word: str
    sizes: dict[str, int]
    hazards: frozenset[tuple[str, ...]]
    condition: str | None

    def __str__(self) -> str:
        at = "-".join(f"{name}{n}" for name, n in self.sizes.items())
        return f"{self.file.stem}-{self.name}-{self.policy.value}-{self.word}-{at}"


def expectations(file: Path) -> Iterator[Expectation]:
    text = file.read_text()
    lines = {"-": "-"}
    for number, line in enumerate(text.splitlines(), 1):
        if name := re.search(r"  # \[(\w+)\]$", line):
            assert name[1] not in lines, f"{file.name}: two lines named {name[1]}"
            lines[name[1]] = str(number)
    for name, comment in _PROCEDURE.findall(text):
        for statement in re.sub(r"\n# {2,}", " ", comment).splitlines():
            match = _STATEMENT.fullmatch(statement.removeprefix("# "))
            assert match, f"{file.name}: {statement!r} is no statement"
            hazards = [h.split() for h in (match["hazards"] or "").split(", ") if h]
            assert (match["word"] == "refuted") == bool(hazards)
            yield from (
                Expectation(
                    file,
                    name,
                    policy,
                    match["word"],
                    {k: int(n) for k, n in re.findall(r"(\w+)=(\d+)", match["sizes"] or "")},
                    frozenset((*h[:2], *(lines[line] for line in h[2:])) for h in hazards),
                    match["condition"],
                )
                for policy in ([Policy(match["policy"])] if match["policy"] else Policy)
            )


ALL = [e for file in FILES for e in expectations(file)]


REFUTED = [e for e in ALL if e.word == "refuted"]
CONDITIONS = [e for e in ALL if e.condition]
SAFE = [e for e in ALL if e.word == "safe" and not e.sizes and not e.condition]
SAFE_AT = [e for e in ALL if e.word == "safe" and e.sizes]


@cache
def load(file: Path) -> dict[str, Procedure]:
    with collecting() as found:
        exec(compile(file.read_text(), str(file), "exec"), {"__name__": file.stem})
    return {p.name: p for p in found}


@cache
def check(file: Path, name: str, policy: Policy) -> Verdict:
    return load(file)[name].check(policy=policy)


def drawn(hazard: Hazard) -> tuple[str, ...]:
    first = str(hazard.first.span.line) if hazard.first else "-"
    return (hazard.kind.value, hazard.variable or "-", first, str(hazard.second.span.line))


@pytest.mark.parametrize("expected", REFUTED, ids=str)
def test_the_bug_is_refuted_at_the_smallest_sizes(expected: Expectation) -> None:
    verdict = check(expected.file, expected.name, expected.policy)
    first = verdict.hazards[0]
    here = {drawn(h) for h in verdict.hazards if h.sizes == first.sizes}
    assert (verdict.word, here, first.sizes) == ("refuted", expected.hazards, expected.sizes)
    for hazard in verdict.hazards:
        # Other pairs of statements fail at larger sizes only, each named at its own smallest.
        others = tuple(hazard.sizes.values()), tuple(expected.sizes.values())
        assert sum(others[0]) >= sum(others[1])
        # A divergence is read off the program: there is no run of it to replay.
        assert hazard.replayed == (hazard.kind is not HazardKind.DIVERGENCE)


@pytest.mark.parametrize("expected", CONDITIONS, ids=str)
def test_the_sizes_at_which_the_bug_hides(expected: Expectation) -> None:
    verdict = check(expected.file, expected.name, expected.policy)
    assert (verdict.word, verdict.condition) == ("refuted", expected.condition)


@pytest.mark.parametrize("expected", SAFE_AT, ids=str)
def test_the_bug_hides_from_the_machine_too(expected: Expectation) -> None:
    procedure = load(expected.file)[expected.name]
    verdict = procedure.check_at(policy=expected.policy, **expected.sizes)
    assert (verdict.word, verdict.hazards) == ("proved", ())


@pytest.mark.parametrize("expected", SAFE, ids=str)
def test_nothing_is_found_for_any_sizes(expected: Expectation) -> None:
    procedure = load(expected.file)[expected.name]
    findings = analyse(procedure.amir(expected.policy))
    assert (findings.violations, findings.undecided, findings.vacuous) == ((), (), False)
    assert findings.obligations > 0
    word = check(expected.file, expected.name, expected.policy).word
    assert word not in ("refuted", "error")


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_both_policies_have_an_answer_for_every_procedure(file: Path) -> None:
    answered = {(e.name, e.policy) for e in [*REFUTED, *SAFE] if e.file == file}
    assert answered == {(name, policy) for name in load(file) for policy in Policy}


def test_the_page_lists_every_refutation() -> None:
    """Each row of docs/museum.md: file and procedure, hazards, smallest sizes, condition."""
    rows = re.findall(
        r"^\| [\w-]+\*? \| \[`(\w+\.py)`\]\(\.\./examples/museum/\1\) `(\w+)`"
        r" \| ([^|]+) \| `?([^|`]+)`? \| `?([^|`]+)`? \|$",
        (ROOT / "docs" / "museum.md").read_text(),
        re.MULTILINE,
    )
    stated = []
    for e in (e for e in REFUTED if e.policy is Policy.PTX):
        condition = next(
            (
                c.condition
                for c in CONDITIONS
                if (c.file, c.name, c.policy) == (e.file, e.name, e.policy)
            ),
            "never",
        )
        kinds = ", ".join(sorted({h[0] for h in e.hazards}))
        sizes = " ".join(f"{name}={n}" for name, n in e.sizes.items()) or "any"
        stated.append((e.file.name, e.name, kinds, sizes, condition))
    assert sorted(rows) == sorted(stated)
