"""Random programs of the whole language, compiled and run on a GPU against their meaning.

    python -m campaigns.gpu_fuzz emit --programs 1000    generate, check, compile: needs no GPU
    python -m campaigns.gpu_fuzz run                     on a GPU: the driver and numpy suffice
    python -m campaigns.gpu_fuzz sanitize --kernels 50   compute-sanitizer over some of them
    python -m campaigns.gpu_fuzz write                   its part of docs/campaigns.md
    python -m campaigns.gpu_fuzz coverage | show NAME | shrink NAME

The stages run apart: the folder (`-o`, build/gpu-fuzz) goes to another machine as it is.  Each
stage goes on where it stopped with --resume.  `run` takes the folder of `exogpu trial -o`, too.
A program is known by its seed, those of `emit --only reach` (`campaigns.reach`) by their shape and
seed; what fails is made smaller by `shrink`, on the GPU where that is what it takes to fail.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from campaigns import cases
from campaigns.gpu import page, sanitizing
from exogpu.gpu_trial import pool
from exogpu.gpu_trial.pool import Result, on_this_machine

FOLDER = cases.ROOT / "build" / "gpu-fuzz"
HANGS_AFTER = 60.0
"""Seconds that all runs of one program may take."""


def emit(options: argparse.Namespace) -> int:
    """Programs into packed files; 1 if we failed at one."""
    from campaigns.gpu import emitting
    from campaigns.named import names

    folder: Path = options.output.resolve()
    if not options.resume:
        for older in folder.glob("*.zip"):
            older.unlink()
    emitting.emit_dirty(folder)
    more = ":all" if options.arrive_all else ""
    chosen = names(options.programs, options.seed, options.only)
    named = [f"{folder}:{name}{more}" for name in chosen]
    given = replace(cases.options(options), folder=folder)
    results = cases.judge_all("emit", named, emitting.emit_one, given)
    found = page.summary(results, {})
    print(page.table(found))
    for state, count in found.states.most_common():
        print(f"{count:6} {state}")
    for name, what in found.failures.items():
        print(f"{name}: {what}")
    return 1 if found.failures else 0


def run(options: argparse.Namespace) -> int:
    """Packed programs on the GPU; 1 if one is wrong or hangs."""
    folder: Path = options.output.resolve()
    files = [str(path) for path in sorted(folder.glob("*.zip"))]
    given = replace(cases.options(options), folder=folder, seconds=options.seconds)
    results = cases.judge_all("run", files, pool.run_one, given)
    late = [case for case, result in results.items() if "hang" in result]
    # Alone, each has the GPU for itself: only what hangs again does hang.
    again = dict(on_this_machine(1, late, pool.run_one, options.seconds)) if late else {}
    confirmed = {**results, **again}
    rewrite(folder / "run.jsonl", again)
    found = page.summary(emitted(folder, files), confirmed)
    for name, what in found.wrong.items():
        print(f"{name}: WRONG: {what}")
    for name in found.hangs:
        print(f"{name}: HANGS")
    print(f"{found.right} of {len(files)} programs right, {found.runs} runs")
    return 1 if found.wrong or found.hangs else 0


def rewrite(path: Path, again: Mapping[str, Result]) -> None:
    """Puts newer results in a journal's place."""
    import json

    head, *lines = path.read_text().splitlines()
    kept = [line for line in lines if json.loads(line)["case"] not in again]
    new = [json.dumps({"case": case, "result": result}) for case, result in again.items()]
    cases.write_whole(path, "".join(f"{line}\n" for line in (head, *kept, *new)))


def emitted(folder: Path, files: list[str]) -> page.Results:
    """Returns the notes of the first stage; of files without a note, that they are there."""
    noted = dict(page.journal(folder / "emit.jsonl"))
    known = {page.name_of(case) for case in noted}
    for file in files:
        if Path(file).stem not in known:
            noted[f"{folder}:{Path(file).stem}"] = {"state": "packed"}
    return noted


def sanitize(options: argparse.Namespace) -> int:
    """Some packed programs under each tool; 1 if one is not silent."""
    folder: Path = options.output.resolve()
    files = sorted(folder.glob("*.zip"))[: options.kernels]
    named = [f"{tool}:{file}" for tool in sanitizing.TOOLS for file in files]
    given = replace(cases.options(options), folder=folder)
    results = cases.judge_all("sanitize", named, sanitizing.sanitize_one, given)
    for case, result in results.items():
        if result.get("state") != "silent":
            print(f"{case}: {result}")
    for tool, what in tools(results).items():
        print(f"{tool}: {what}")
    return 0 if all(result.get("state") == "silent" for result in results.values()) else 1


def tools(results: page.Results) -> dict[str, str]:
    """One line for each tool."""
    found: dict[str, str] = {}
    for tool in sanitizing.TOOLS:
        mine = [r for case, r in results.items() if case.startswith(f"{tool}:")]
        silent = sum(r.get("state") == "silent" for r in mine)
        if mine:
            word = "silent on all" if silent == len(mine) else f"not silent on {len(mine) - silent}"
            found[tool] = f"{word} of {len(mine)} programs"
    return found


def write(options: argparse.Namespace) -> int:
    """The page, of what the stages noted; 1 if something went wrong in one of them."""
    folder: Path = options.output.resolve()
    ran: dict[str, Result] = {}
    noted: dict[str, Result] = {}
    for one in (folder, *options.beside):
        here = page.journal(one / "run.jsonl"), page.journal(one / "emit.jsonl")
        if not all(here):
            print(f"{one} has no results of emit and run", file=sys.stderr)
            return 2
        ran |= here[0]
        noted |= here[1]
    checked = tools(page.journal((options.sanitized or folder) / "sanitize.jsonl"))
    found = page.summary(noted, ran)
    devices = {result["device"] for result in ran.values() if "device" in result}
    command, of = f"make gpu-fuzz PROGRAMS={len(noted)}", ""
    if not all(page.name_of(case).startswith("fuzz_") for case in noted):
        shown = folder.relative_to(cases.ROOT) if folder.is_relative_to(cases.ROOT) else folder
        command = (
            f"python -m campaigns.gpu_fuzz emit --only reach --programs {len(noted)} -o {shown}"
        )
        of = "fragments, atomics, bulk stores, products, launches, roles, clusters"
    if options.beside:
        command = (
            f"python -m campaigns.gpu_fuzz write  # of {1 + len(options.beside)} emits and runs"
        )
    made = page.text(found, command, ", ".join(sorted(devices)) or "no GPU", checked, of)
    cases.write_section(options.part, made, options.page)
    loud = any(not what.startswith("silent") for what in checked.values())
    return 1 if found.wrong or found.hangs or found.failures or loud else 0


def one(options: argparse.Namespace) -> int:
    """One packed file, quickly: what runs under a checker."""
    result = pool.run_quickly(str(options.file))
    print(result)
    return 1 if result["wrong"] else 0


def coverage(options: argparse.Namespace) -> int:
    """Features of programs, which are generated and nothing else."""
    from campaigns.named import names, program_of

    results = {
        f":{name}": {"state": "generated", "features": sorted(program_of(name).features)}
        for name in names(options.programs, options.seed, options.only)
    }
    print(page.table(page.summary(results, {})))
    return 0


def show(options: argparse.Namespace) -> int:
    from campaigns.named import program_of

    print(program_of(options.name).source, end="")
    return 0


def shrink(options: argparse.Namespace) -> int:
    """A smaller program that fails as that of a seed does: at once, or on the GPU."""
    from campaigns.gpu import failing, shrinking
    from campaigns.named import program_of

    program = program_of(options.name)
    kind = failing.failure(program, on_gpu=options.gpu, seconds=options.seconds)
    if not kind:
        print(f"{program.name} does not fail")
        return 0

    def keeps(source: str) -> bool:
        candidate = replace(program, source=source)
        return failing.failure(candidate, on_gpu=options.gpu, seconds=options.seconds) == kind

    print(shrinking.smaller(program.source, keeps), end="")
    print(f"# {kind}")
    return 1


STAGES: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "emit": emit,
    "run": run,
    "sanitize": sanitize,
    "write": write,
    "one": one,
    "coverage": coverage,
    "show": show,
    "shrink": shrink,
}


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    stages = made.add_subparsers(dest="stage", required=True)
    each: dict[str, Any] = {
        name: stages.add_parser(name, help=f.__doc__) for name, f in STAGES.items()
    }
    for name in ("emit", "run", "sanitize"):
        cases.add_arguments(each[name])
    for name in ("emit", "run", "sanitize", "write"):
        each[name].add_argument("-o", "--output", type=Path, default=FOLDER)
    for name in ("emit", "coverage"):
        each[name].add_argument("--programs", type=int, default=1000)
        each[name].add_argument("--seed", type=int, default=0)
        each[name].add_argument("--only", metavar="SHAPE", help="`reach`, or one of its shapes")
    each["emit"].add_argument("--arrive-all", action="store_true")
    for name in ("run", "shrink"):
        each[name].add_argument("--seconds", type=float, default=HANGS_AFTER)
    each["run"].set_defaults(jobs=4)
    each["sanitize"].add_argument("--kernels", type=int, default=50)
    parts = ("gpu-fuzz", "gpu-fuzz-reach")
    each["write"].add_argument("--page", type=Path, default=cases.CAMPAIGNS, help="to write to")
    each["write"].add_argument("--part", choices=parts, default=parts[0], help="which is written")
    each["write"].add_argument(
        "--beside", type=Path, action="append", default=[], help="a folder of other seeds"
    )
    each["write"].add_argument("--sanitized", type=Path, help="where sanitize was run")
    each["one"].add_argument("file", type=Path)
    for name in ("show", "shrink"):
        each[name].add_argument("name", help="SEED, or SHAPE_SEED")
    each["shrink"].add_argument("--gpu", action="store_true", help="run it, too")
    return made


def main() -> int:
    options = parser().parse_args()
    return STAGES[options.stage](options)


if __name__ == "__main__":
    sys.exit(main())
