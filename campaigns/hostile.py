"""The command line on hostile inputs: garbage, broken kernels, nonsense calls, odd files.

    python campaigns/hostile.py [--inputs 2000] [--seed 0] [--jobs N] [--only KIND] [--replay N]

Each input is a call of the real program in a folder of its own.  It must not show a traceback, must
end in time, and must exit with a status that is right: a file that is no Python never exits with 0,
the status agrees with the verdicts that --json lists, and 4, a failure of exogpu, is a finding.
A whole run of at least 2,000 inputs writes its part of docs/campaigns.md at its end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from time import monotonic, sleep
from typing import Final

ROOT: Final = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import typer  # noqa: E402
from hostile_calls import MAKERS, case  # noqa: E402
from hostile_files import Case  # noqa: E402
from rich.progress import Progress  # noqa: E402

from campaigns import cases  # noqa: E402

# What a call would import is there before the first fork.
from exogpu.cli.commands import app, main  # noqa: E402
from exogpu.cli.exit_handler import STATUS, worst  # noqa: E402

GIVEN: Final = 10
"""Seconds that --timeout gives to each check, where a command takes it."""

LIMIT: Final = 90.0
"""Seconds after which a call hangs: several checks, on a machine that does other things too."""

WHOLE: Final = 2000


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a call."""

    number: int
    case: Case
    status: int | None
    """None if it was killed for its time; negative for a signal."""
    seconds: float
    out: str
    err: str

    @property
    def wrong(self) -> str:
        """Describes the fault of the call; empty if there is none."""
        if self.status is None:
            return f"it hangs: killed after {self.seconds:.0f} s"
        if self.status < 0:
            return f"it crashes by signal {-self.status}"
        if "Traceback (most recent call last)" in self.err + self.out:
            return "it shows a traceback"
        if self.status not in self.case.allowed:
            return f"it exits with {self.status}, and {sorted(self.case.allowed)} would be right"
        return _contradiction(self)


def _contradiction(ended: Ended) -> str:
    """Describes a status that contradicts the listed verdicts; empty if it does not."""
    if ended.case.arguments[0] != "check" or "--json" not in ended.case.arguments:
        return ""
    if ended.case.streams:
        return ""  # nobody reads what is listed
    if not ended.out.strip():
        return "" if ended.status == STATUS["error"] else "it lists nothing"
    try:
        words = {STATUS[one["verdict"]] for one in json.loads(ended.out)}
    except (ValueError, KeyError, TypeError) as error:
        return "" if "--help" in ended.case.arguments else f"its JSON is broken: {error!r}"
    expected = worst(words)
    if ended.status not in (expected, STATUS["error"]):
        return f"it exits with {ended.status}, and lists verdicts of status {expected}"
    return ""


# --- running ------------------------------------------------------------------------------------


def run_all(numbers: Iterable[int], seed: int, jobs: int, keep: bool = False) -> Iterator[Ended]:
    """Yields the end of each input's call, as soon as it is there."""
    waiting = iter(numbers)
    running: dict[int, tuple[int, Case, float, Path]] = {}
    while True:
        while len(running) < jobs and (number := next(waiting, None)) is not None:
            made, folder = case(seed, number), Path(tempfile.mkdtemp(prefix=f"hostile-{number}-"))
            running[_start(made, folder)] = (number, made, monotonic(), folder)
        if not running:
            return
        for process, (number, made, start, folder) in list(running.items()):
            seconds = monotonic() - start
            done, raw = os.waitpid(process, os.WNOHANG)
            if not done and seconds < LIMIT:
                continue
            if not done:
                os.killpg(process, signal.SIGKILL)
                os.waitpid(process, 0)
            status = os.waitstatus_to_exitcode(raw) if done else None
            del running[process]
            out, err = (_text(folder / name) for name in ("stdout", "stderr"))
            yield Ended(number, made, status, seconds, out, err)
            if keep:
                print(f"the folder: {folder}")
            else:
                shutil.rmtree(folder, ignore_errors=True)
        sleep(0.01)


def _text(path: Path) -> str:
    return path.read_bytes()[:10_000_000].decode(errors="replace") if path.exists() else ""


def _start(made: Case, folder: Path) -> int:
    """The process of a call; its files are in `here`, its output beside them."""
    here = folder / "here"
    _lay_out(made, here)
    process = os.fork()
    if process:
        return process
    status = 70
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(here)
        _redirect(made.streams, folder)
        sys.argv = ["exogpu", *_with_timeout(made.arguments)]
        main()
        status = 0
    except SystemExit as ended:
        code = ended.code
        status = code if isinstance(code, int) else 0 if code is None else 1
    except BaseException:
        # As Python itself would: this is what must not happen.
        sys.excepthook(*sys.exc_info())
        status = 1
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        os._exit(status)


def _with_timeout(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments with --timeout, where the command takes it and is not given it."""
    commands = getattr(typer.main.get_command(app), "commands", {})
    known = getattr(commands.get(arguments[0]), "params", ())
    taken = any("--timeout" in parameter.opts for parameter in known)
    if not taken or "--timeout" in arguments or "--" in arguments:
        return arguments
    return (arguments[0], "--timeout", str(GIVEN), *arguments[1:])


def _lay_out(made: Case, here: Path) -> None:
    here.mkdir()
    for name, data in made.files.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_bytes(data)
    for kind, name in made.specials:
        match kind:
            case "fifo":
                os.mkfifo(here / name)
            case "folder":
                (here / name).mkdir()
            case "socket":
                # The path of a socket may have 108 bytes only.
                with socket.socket(socket.AF_UNIX) as one:
                    one.bind(str(here / name))
            case _:
                (here / name).symlink_to(kind)


def _redirect(streams: str, folder: Path) -> None:
    """Gives the process the streams that the case wants; Python's own are made anew."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(folder / "stderr", os.O_WRONLY | os.O_CREAT), 2)
    match streams:
        case "full":
            out = os.open("/dev/full", os.O_WRONLY)
        case "pipe":
            reader, out = os.pipe()
            os.close(reader)
        case _:
            out = os.open(folder / "stdout", os.O_WRONLY | os.O_CREAT)
    os.dup2(out, 1)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    if streams == "closed":
        os.close(1)
        sys.stdout = None  # as Python has it then


# --- the page -----------------------------------------------------------------------------------


def page(ended: Sequence[Ended], seed: int, seconds: float) -> str:
    """Its part of docs/campaigns.md."""
    kinds: Mapping[str, list[Ended]] = defaultdict(list)
    for one in ended:
        kinds[one.case.kind].append(one)
    wrong = [one for one in ended if one.wrong]
    lines = [
        "# The command line on hostile inputs",
        "",
        f"{len(ended):,} inputs made from seed {seed}, {date.today()}, {seconds / 60:.0f} minutes: "
        f"{len(wrong) or 'no'} finding{'s' * (len(wrong) != 1)}.  Each is a call of the real "
        "program in a folder of its own, judged by `campaigns/hostile.py`: no traceback, no crash, "
        f"an end within {LIMIT:.0f} s, and a right exit status.",
        "",
        "| kind | inputs | exit 0 | 1 | 2 | 3 | other | slowest | findings |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for kind in MAKERS:
        made = kinds.get(kind, [])
        statuses = Counter(one.status for one in made)
        known = [statuses.pop(status, 0) for status in (0, 1, 2, 3)]
        slowest = max((one.seconds for one in made), default=0.0)
        found = sum(bool(one.wrong) for one in made)
        cells = (kind, len(made), *known, statuses.total(), f"{slowest:.1f} s", found)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", *(f"- {_title(one)}" for one in wrong)]
    return "\n".join(lines).rstrip() + "\n"


def _title(one: Ended) -> str:
    call = " ".join(one.case.arguments)[:200]
    return f"{one.number}, {one.case.kind}: `exogpu {call}`: {one.wrong}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=WHOLE)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", choices=tuple(MAKERS), help="one kind of inputs")
    parser.add_argument("--replay", type=int, metavar="N", help="one input, and keep its folder")
    return parser.parse_args()


def run() -> int:
    """The exit status: 1 if there are findings."""
    options = _options()
    os.environ.pop("EXOGPU_DEBUG", None)
    numbers: Sequence[int] = range(options.inputs)
    if options.only:
        kinds = tuple(MAKERS)
        numbers = [n for n in numbers if kinds[n % len(kinds)] == options.only]
    if options.replay is not None:
        numbers = [options.replay]
    start, ended = monotonic(), []
    with Progress() as progress:
        task = progress.add_task("inputs", total=len(numbers))
        for one in run_all(numbers, options.seed, options.jobs, options.replay is not None):
            ended.append(one)
            progress.advance(task)
            if one.wrong or options.replay is not None:
                progress.print(_title(one), markup=False, highlight=False)
                progress.print(one.err[-2000:], markup=False, highlight=False)
    found = sum(bool(one.wrong) for one in ended)
    print(f"{len(ended)} inputs, {found} findings, {monotonic() - start:.0f} s")
    if len(ended) >= WHOLE:
        cases.write_section("hostile", page(ended, options.seed, monotonic() - start))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(run())
