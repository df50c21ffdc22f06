"""Bugs planted in kernels of one's own: what is found, how soon, and what mends it.

    python -m campaigns.planted [--only KERNEL] [--jobs N] [--resume] [--write]

Each bug of `tests/cases/planted` is checked in a process of its own, and the repair of its first
hazard is made as it is written.  `--write` makes its part of docs/campaigns.md.
"""

from __future__ import annotations

import argparse
import linecache
import sys
import tempfile
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from time import process_time
from typing import Final
from unittest.mock import patch

from rich.console import Console

from campaigns import cases
from exogpu.api import Procedure, collecting
from exogpu.cli.lsp.fixes import apply_change
from exogpu.diagnostics.verdict import Verdict
from exogpu.solvers import processes
from tests import planted

SECONDS: Final = 120.0
"""For one bug."""


def judge(case: str) -> cases.Result:
    """Checks a kernel, `KERNEL`, or it with a bug, `KERNEL:BUG`."""
    stem, _, name = case.partition(":")
    path = planted.CASES / f"{stem}.py"
    if not name:
        verdict, _, seconds = _timed(planted.source(path))
        return {"word": verdict.word, "all": seconds}
    (bug,) = (one for one in planted.bugs(path) if one.name == name)
    verdict, first, every = _timed(bug.text)
    kinds = [h.kind.value for h in verdict.hazards] or [d.code for d in verdict.diagnostics]
    helps = [*(h.help for h in verdict.hazards), *(d.help for d in verdict.diagnostics)]
    after = ""
    if verdict.hazards and verdict.hazards[0].changes:
        after = _timed(apply_change(bug.text, verdict.hazards[0].changes[0]))[0].word
    return {
        "word": verdict.word,
        "found": list(dict.fromkeys(kinds)),
        "first": first,
        "all": every,
        "repair": helps[0] if helps else "",
        "after": after,
        "edit": "; ".join(bug.edits),
    }


def _timed(text: str) -> tuple[Verdict, float, float]:
    """The verdict on a file's last procedure, and seconds of the processor up to its first hazard
    and in all: the check's work is done in this process."""
    with tempfile.TemporaryDirectory() as folder:
        procedure = _load(text, Path(folder) / "kernel.py")
        heard: list[float] = []

        def hear(verdict: Verdict) -> None:
            heard.append(process_time() - start)

        with patch.object(processes, "FORKS", False):
            start = process_time()
            verdict = procedure.check(heard=hear)
            every = process_time() - start
    return verdict, heard[0] if heard else every, every


def _load(text: str, path: Path) -> Procedure:
    path.write_text(text)
    linecache.checkcache(str(path))
    with collecting() as found:
        exec(compile(text, str(path), "exec"), {"__name__": path.stem})
    return found[-1]


def section(results: Mapping[str, cases.Result]) -> str:
    """Its part of docs/campaigns.md."""
    kernels = {case: result for case, result in results.items() if ":" not in case}
    bugs = {case: result for case, result in results.items() if ":" in case}
    rows = [_row(case, result) for case, result in bugs.items()]
    words = [result.get("word", "") for result in bugs.values()]
    mended = sum(result.get("after") == "proved" for result in bugs.values())
    written = sum(bool(result.get("after")) for result in bugs.values())
    proof = {stem: result.get("all", 0.0) for stem, result in kernels.items()}
    told = {case: result for case, result in bugs.items() if "first" in result}
    first = [result["first"] - proof[case.partition(":")[0]] for case, result in told.items()]
    every = [result["all"] for result in told.values()]
    lost = [f"- `{case}`: no verdict" for case, result in results.items() if "word" not in result]

    def latest(seconds: Iterable[float]) -> str:
        return f"{max(seconds, default=0.0):.1f}"

    return "\n".join(
        [
            "# Planted bugs",
            "",
            "    python -m campaigns.planted",
            "",
            f"Last run: {date.today()}.  {len(bugs)} bugs planted in {len(kernels)} kernels, which"
            f" are proved without them: {words.count('refuted')} refuted, {words.count('error')}"
            f" ill-formed.  Of {written} repairs that are changes of the text, {mended} give a"
            " proof as they are written.",
            "",
            f"Seconds of the processor: proofs take {latest(proof.values())} at most.  A first"
            f" hazard comes {latest(first)} after the proof's time at the latest; all of them, with"
            f" repairs, take {latest(every)} at most.",
            "",
            "| kernel and bug | edit | found | first | all | repair | made so |",
            "| --- | --- | --- | ---: | ---: | --- | --- |",
            *rows,
            "",
            *lost,
        ]
    )


def _row(case: str, result: cases.Result) -> str:
    if "word" not in result:
        return f"| {case} | | no verdict | | | | |"
    stem, _, name = case.partition(":")
    found = ", ".join(result["found"])
    cells = [
        f"{stem}: {name.replace('_', ' ')}",
        f"`{result['edit']}`",
        found,
        f"{result['first']:.2f}",
        f"{result['all']:.2f}",
        result["repair"],
        result["after"] or "not a change",
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", metavar="KERNEL", help="one kernel, by its file's stem")
    parser.add_argument("--write", action="store_true", help="make its part of docs/campaigns.md")
    cases.add_arguments(parser)
    given = parser.parse_args()
    if given.write and given.only:
        parser.error("--write wants all kernels")
    paths = [path for path in planted.kernels() if given.only in (None, path.stem)]
    named = [
        name
        for path in paths
        for name in (path.stem, *(f"{path.stem}:{bug.name}" for bug in planted.bugs(path)))
    ]
    chosen = cases.options(given)
    timed = cases.Options(chosen.jobs, chosen.scheduler, chosen.resume, SECONDS)
    results = cases.judge_all("planted", named, judge, timed)
    text = section(results)
    if given.write:
        cases.write_section("planted", text)
    Console().print(text, markup=False, highlight=False, soft_wrap=True)
    return 0 if all("word" in result for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
