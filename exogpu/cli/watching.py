"""`exogpu check --watch`: the same check again, each time that a file changes which it rests on."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import sleep, strftime
from typing import Final, NoReturn, TypeAlias

from exogpu.cli.render import console
from exogpu.solvers.workers import Limits, Stopped, streamed

LOOK: Final = 0.3
"""Seconds between two looks at the files."""

SETTLE: Final = 0.15
"""Seconds for which files have to stay as they are: an editor empties a file before it writes."""

Seen: TypeAlias = dict[str, tuple[int, int]]
"""By path, when a file changed and how many bytes it has."""


@dataclass(frozen=True, slots=True)
class _Round:
    """A check was made, and has read these files."""

    files: tuple[str, ...]


def watch(targets: Collection[str], check: Callable[[], object]) -> NoReturn:
    """Checks, and checks again after each change, in a process of its own; until it is
    interrupted."""
    # A second save of as many bytes within a second is not told from the first by Python's cache.
    sys.dont_write_bytecode = True
    known: tuple[str, ...] = ()
    while True:
        if console().is_terminal:
            console().clear()
        before = settled(targets, known)
        known = (*known, *_imported_by(check))
        # What is first heard of in this check counts from now on.
        before = {**seen(targets, known), **before}
        told = f"{len(before)} file{'' if len(before) == 1 else 's'}"
        console().print(f"{strftime('%H:%M:%S')} watching {told}; Ctrl-C ends", style="dim")
        sys.stdout.flush()
        while seen(targets, known) == before:
            sleep(LOOK)


def _imported_by(check: Callable[[], object]) -> tuple[str, ...]:
    """The files of the modules that a check has imported: its process ends, and they with it."""
    older = frozenset(sys.modules)

    def work() -> Iterator[_Round]:
        check()
        yield _Round(_imported(older))

    files: tuple[str, ...] = ()
    for found in streamed(work, Limits()):
        if isinstance(found, Stopped):
            console(stderr=True).print(f"the check has ended: {found}")
        else:
            files = found.files
    for name in frozenset(sys.modules) - older:
        del sys.modules[name]  # where it was made in this process
    return files


def _imported(older: Collection[str]) -> tuple[str, ...]:
    """But for those that are installed, and exogpu's own."""
    installed = {*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))}
    own = str(Path(__file__).parent.parent)
    new = (sys.modules[name] for name in tuple(sys.modules) if name not in older)
    files = {getattr(module, "__file__", None) for module in new}
    return tuple(
        sorted(
            file
            for file in files
            if isinstance(file, str) and not any(map(file.startswith, (*installed, own)))
        )
    )


def settled(targets: Collection[str], known: Collection[str]) -> Seen:
    """The state of the files once they are no longer being written."""
    state = seen(targets, known)
    while True:
        sleep(SETTLE)
        later = seen(targets, known)
        if later == state:
            return state
        state = later


def seen(targets: Iterable[str], known: Iterable[str]) -> Seen:
    """The state of the files of targets, and of others."""
    paths = {os.path.abspath(file) for file in known}
    for target in targets:
        path = Path(target.partition("::")[0])
        if path.is_dir():
            below = path.rglob("*.py")
            paths |= {os.path.abspath(f) for f in below if not _hidden(f.relative_to(path))}
        elif path.suffix == ".py":
            paths.add(os.path.abspath(path))
    states: Seen = {}
    for file in paths:
        try:
            status = os.stat(file)
        except OSError:
            continue  # it is gone, which is a change too
        states[file] = status.st_mtime_ns, status.st_size
    return states


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "__")) for part in path.parts[:-1])
