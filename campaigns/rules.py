"""Verdicts without a rule: which kernels were proved before the rule of a decision.

    python -m campaigns.rules [--jobs N] [--resume] [--write]

Of every kernel of the museum, the examples and the cases of tests the finder's verdict is compared
with the one that it gives if a rule is taken away: `await-own-arrival`, `private-slot`,
`host-lifetime` or `initialised`.  `--write` makes its part of docs/campaigns.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date
from typing import Any, Final
from unittest.mock import patch

from campaigns import cases
from exogpu.amir import lower, lower_arguments
from exogpu.amir.nodes import Program
from exogpu.analysis import private_slots
from exogpu.api import Procedure, collecting
from exogpu.cli.loader import load
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.symbolic import model
from exogpu.symbolic.search import rank_comparisons
from exogpu.symbolic.search.analysis import BUDGET, analyse

FOLDERS: Final = (
    *("examples", "examples/museum", "examples/tutorial"),
    *("tests/cases/verdicts", "tests/cases/slots"),
)

SECONDS: Final = 120.0
"""For one file without one rule."""


def _nothing(*given: object) -> Iterator[Any]:
    return iter(())


def _same(program: Program) -> Program:
    return program


RULES: Final[Mapping[str, Mapping[tuple[object, str], Callable[..., object]]]] = {
    "": {},
    "await-own-arrival": {(rank_comparisons, "own_arrival"): lambda policy, n: False},
    "private-slot": {
        (private_slots, "check"): _nothing,
        (lower, "with_comparisons"): _same,
        (model, "check_private_slots"): lambda program: None,
    },
    "host-lifetime": {(lower, "is_on_host"): lambda variable: False},
    "initialised": {(lower_arguments, "may_be_uninitialised"): lambda low, access: False},
}
"""By decision, what is put in the place of its rule; the first takes nothing away."""


@contextmanager
def without(rule: str) -> Iterator[None]:
    """Takes the rule of a decision away."""
    patches = [patch.object(*place, put) for place, put in RULES[rule].items()]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in patches:
            one.stop()


def judge(case: str) -> cases.Result:
    """Judges the procedures of a file without a rule, `RULE:FILE`: their verdicts by name."""
    rule, _, file = case.partition(":")
    with without(rule), collecting():
        found = [unit.procedure for unit in load(str(cases.ROOT / file))]
        return {"verdicts": {one.name: _word(one) for one in found if one is not None}}


def _word(procedure: Procedure) -> str:
    try:
        findings = analyse(procedure.amir(), budget=BUDGET // 2)
    except ExoGpuError as error:
        return f"error {error.diagnostics[0].code}"
    if findings.violations:
        return f"refuted {', '.join(sorted({one.kind.name for one in findings.violations}))}"
    return "undecided" if findings.undecided else "safe"


def section(results: Mapping[str, cases.Result]) -> str:
    """Its part of docs/campaigns.md."""
    changed, count = [], 0
    for case, result in results.items():
        rule, _, file = case.partition(":")
        now = results[f":{file}"].get("verdicts", {})
        count += len(now) if not rule else 0
        for name, word in result.get("verdicts", {}).items():
            if rule and word != now.get(name, word):
                where = file.removeprefix("tests/cases/").removeprefix("examples/")
                changed.append(f"| {rule} | {where}, `{name}` | {now[name]} | {word} |")
    lost = [
        f"- `{case}`: no answer" for case, result in results.items() if "verdicts" not in result
    ]
    return "\n".join(
        [
            "# Verdicts without a rule",
            "",
            "    python -m campaigns.rules",
            "",
            f"Last run: {date.today()}.  {count} kernels of the museum, the examples and the tests;"
            " those whose verdict changes if the rule of a decision is taken away.  Nothing is"
            " found in a safe one.",
            "",
            "Shipped kernels are proved with all rules.  For `initialised` some were written anew:"
            " `gemm_sm80` and its 16-bit forms, `topk`, kernels of long rows, paged attention"
            " and the paper's examples say `uninit` of what is not used.",
            "",
            "| rule | kernel | with it | without it |",
            "| --- | --- | --- | --- |",
            *changed,
            "",
            *lost,
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="make its part of docs/campaigns.md")
    cases.add_arguments(parser)
    given = parser.parse_args()
    files = [
        str(path.relative_to(cases.ROOT))
        for folder in FOLDERS
        for path in sorted((cases.ROOT / folder).glob("*.py"))
    ]
    chosen = cases.options(given)
    timed = cases.Options(chosen.jobs, chosen.scheduler, chosen.resume, SECONDS)
    results = cases.judge_all("rules", [f"{r}:{f}" for r in RULES for f in files], judge, timed)
    text = section(results)
    print(text)
    if given.write:
        cases.write_section("rules", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
