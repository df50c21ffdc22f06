"""Random TTGIR of two and three roles: none is proved that goes wrong in some order.

    python -m campaigns.ttgir [--programs 3000] [--seed 0] [--jobs N] [--resume] [--write]
    python -m campaigns.ttgir --replay SEED

Programs hand tiles on through rings of 1 to 4 slots, right ones and ones with up to two mistakes
(`tests/importing/random_roles.py`).  Each is imported and checked, and run by an interpreter that
shares nothing with the importer (`tests/importing/interpreter.py`).  With --write its part of
docs/campaigns.md is made of it.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from random import Random

from campaigns import cases
from exogpu.imported import UnimportedKernel, import_ttgir
from tests.importing.interpreter import right
from tests.importing.random_roles import Choice, draw, text

SECONDS = 10.0
"""For a check; a proof takes about one."""
LIMIT = 120.0
"""For a program."""


def outcome(case: str) -> cases.Result:
    """One program, by its seed: its verdict, and what goes wrong in some order."""
    try:
        choice = draw(Random(int(case)))
        program = text(choice)
        kernel = import_ttgir(program)
        verdict = kernel.check(timeout=SECONDS)
        refused = isinstance(kernel, UnimportedKernel) and verdict.word == "undecided"
        return {
            "verdict": "refused" if refused else verdict.word,
            "kinds": [one.kind.value for one in verdict.hazards],
            "goes wrong": right(program)[:200],
            "features": features(choice),
        }
    except Exception:
        return {"crash": traceback.format_exc(limit=-3)}


def features(choice: Choice) -> list[str]:
    """Lists what a program has in it."""
    found = [f"ring of {choice.depth}", "two roles"]
    if choice.storing or choice.double:
        found[1] = "three roles, of which one stores" if choice.storing else "three roles, of which"
        found[1] += "" if choice.storing else " two double each tile"
    found += [f"another phase of {name}" for name in choice.phases]
    found += [f"no {name.replace('_', ' ')}" for name in sorted(choice.missing)]
    found += [f"{name} too early" for name in sorted(choice.early)]
    found += [f"a mask of {name}" for name in choice.masks]
    return found + [
        name
        for name, there in (
            ("more groups pending", choice.pending),
            ("another slot is read", choice.shift),
            ("another slot is filled", choice.lag),
            ("another count of arrivals", choice.count),
            ("other expected bytes", choice.bytes),
        )
        if there
    ]


VERDICTS = ("proved", "refuted", "undecided", "refused")


def wrong(results: Mapping[str, cases.Result]) -> list[str]:
    """The programs that are proved and go wrong, and those that were not judged."""
    found = []
    for case, result in results.items():
        if result.get("verdict") == "proved" and result["goes wrong"]:
            found.append(f"{case} is proved: {result['goes wrong']}")
        found += [f"{case}: {k}: {result[k]}" for k in ("crash", "died", "hang") if k in result]
    return found


def commands(seeds: Sequence[int]) -> Iterator[str]:
    """The commands that judge these seeds, one for each run of them."""
    first = at = 0
    for at, seed in enumerate(seeds, 1):
        if at == len(seeds) or seeds[at] != seed + 1:
            yield f"    python -m campaigns.ttgir --programs {at - first} --seed {seeds[first]}"
            first = at


def page(results: Mapping[str, cases.Result]) -> str:
    """Its part of docs/campaigns.md."""
    judged = [result for result in results.values() if "verdict" in result]
    table: dict[str, Counter[str]] = {}
    for result in judged:
        for feature in ("all", *result["features"]):
            counter = table.setdefault(feature, Counter())
            counter[result["verdict"]] += 1
            counter["programs"] += 1
            counter["wrong"] += bool(result["goes wrong"])
            counter["proved and wrong"] += bool(
                result["goes wrong"] and result["verdict"] == "proved"
            )
    names = ("programs", *VERDICTS, "wrong", "proved and wrong")
    lines = [
        f"| feature | {' | '.join(names[:-2])} | goes wrong | proved and goes wrong |",
        f"| --- |{' ---: |' * len(names)}",
    ]
    for feature, counter in sorted(table.items(), key=lambda one: (one[0] != "all", one[0])):
        lines.append(f"| {feature} | {' | '.join(f'{counter[name]:,}' for name in names)} |")
    mistakes = wrong(results)
    said = "\n".join(f"- {one}" for one in mistakes)
    found = f"Wrong:\n\n{said}" if mistakes else "None is proved that goes wrong in an order."
    return f"""# Random kernels in TTGIR

{chr(10).join(commands(sorted(map(int, results))))}

Last run: {date.today()}.  {len(results):,} random programs in TTGIR, of two and three roles that
hand tiles on through rings of 1 to 4 slots, right ones and ones with one or two mistakes.  Each is
imported and checked for {SECONDS:.0f} s at most.  An interpreter that shares nothing with the
importer runs it at 1, 2, 3 and 5 tiles, in 25 orders of its warps and copies each.  A program goes
wrong where orders store different tiles, or one is stuck.

{found}

A refuted program that goes wrong in none of these orders is no mistake: the interpreter has no weak
memory but for what is written without a proxy fence, and its orders are few.

{chr(10).join(lines)}
"""


def replay(seed: int) -> int:
    """Prints one program, and what is said of it."""
    program = text(draw(Random(seed)))
    verdict = import_ttgir(program).check(timeout=SECONDS)
    print(program, verdict, right(program) or "goes right in all orders", sep="\n")
    return 0


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=3_000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--write", action="store_true", help="make its part of docs/campaigns.md")
    parser.add_argument("--replay", type=int, metavar="SEED", help="one program, and show it")
    cases.add_arguments(parser)
    options = parser.parse_args()
    if options.replay is not None:
        return replay(options.replay)
    if options.programs < 1:
        parser.error("--programs needs at least 1")
    seeds = [str(n) for n in range(options.seed, options.seed + options.programs)]
    how = replace(cases.options(options), seconds=LIMIT)
    results = cases.judge_all("ttgir", seeds, outcome, how)
    made = page(results)
    if options.write:
        cases.write_section("ttgir", made)
    print(made)
    return 1 if wrong(results) else 0


if __name__ == "__main__":
    sys.exit(main())
