"""Verdicts on disk: what was decided of a procedure is not decided again.

The name of an entry is the digest of all that determines a verdict: the procedure as it was read,
the policy, the sizes, and the program that decides, which is exogpu's own files and the versions
of Python, Z3 and islpy.  An entry is a file that never changes, written whole under another name
and renamed, so that processes need not wait for one another.  It is JSON, which executes nothing,
with a digest in front: what is damaged, or of another shape, is no entry.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib import metadata
from pathlib import Path
from time import perf_counter, time_ns
from typing import Final

from exogpu.ir.digest import digest
from exogpu.ir.nodes import Proc
from exogpu.result.codec import UnreadableError, decode, encode
from exogpu.result.started import STARTED
from exogpu.result.verdict import Policy, Verdict

VARIABLE: Final = "EXOGPU_CACHE"
"""Names another folder than the user's."""

MOST: Final = 4096
"""Entries that are kept; of more, those written first go."""

LARGEST: Final = 1 << 28
"""Bytes of an entry that is read, once unpacked."""

ABANDONED: Final = 3600 * 10**9
"""Nanoseconds after which what is half written is nobody's."""

SUFFIX: Final = ".verdict"

_OWN: Final = Path(__file__).parent.parent
"""Where exogpu's files are."""

_FRONT: Final = 32
"""Bytes of the digest in front of an entry."""


def folder() -> Path:
    """`exogpu/verdicts` in the user's cache directory, or what EXOGPU_CACHE names."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    from platformdirs import user_cache_path

    return user_cache_path("exogpu") / "verdicts"


def key(proc: Proc, policy: Policy, sizes: Mapping[str, int] | None) -> str | None:
    """What determines the verdict on a procedure, in one digest; None where that is not known."""
    program, decider = digest(proc), own_files()
    if program is None or decider is None:
        return None
    given = None if sizes is None else list(sizes.items())
    parts = [program, policy.value, given, tools(), decider]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@cache
def tools() -> tuple[str, ...]:
    """The versions of what decides, beside exogpu's own files."""
    found = [f"python {platform.python_version()}"]
    for package in ("exogpu", "z3-solver", "islpy", "numpy"):
        with suppress(metadata.PackageNotFoundError):
            found.append(f"{package} {metadata.version(package)}")
    return tuple(found)


@cache
def own_files() -> str | None:
    """The digest of exogpu's files, since an edited checkout has the same version; None where they
    are no files that can be read, or not those that this process has read."""
    try:
        found = digest_of_files(_OWN)
    except OSError:
        return None
    return found if unchanged() else None


def unchanged() -> bool:
    """Whether exogpu's files are as they were when this process began to read them: what decides
    is then what they say."""
    try:
        return max(os.stat(path).st_ctime for path in _files(_OWN)) < STARTED
    except OSError:
        return False


def digest_of_files(root: Path) -> str:
    """The digest of the names and contents of all files of a folder.  Raises OSError."""
    found = hashlib.sha256()
    if not root.is_dir():
        raise NotADirectoryError(root)
    for path in _files(root):
        data = path.read_bytes()
        found.update(f"{path.relative_to(root)} {len(data)}\n".encode() + data)
    return found.hexdigest()


def _files(root: Path) -> Iterator[Path]:
    for at, folders, files in os.walk(root, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            yield Path(at, name)


def load(entry: str) -> Verdict | None:
    """The verdict of a key; None where there is none that can be read."""
    start = perf_counter()
    try:
        path = _path(entry)
        data = path.read_bytes() if path.is_file() else b""
        packed = data[_FRONT:]
        if hashlib.sha256(entry.encode() + packed).digest() != data[:_FRONT]:
            return None
        opened = zlib.decompressobj()
        text = opened.decompress(packed, LARGEST)
        if not opened.eof:
            return None
        verdict = decode(Verdict, json.loads(text))
    except (OSError, ValueError, zlib.error, UnreadableError, RecursionError):
        return None
    assert isinstance(verdict, Verdict)
    return replace(verdict, seconds=perf_counter() - start, cached=True)


def store(entry: str, verdict: Verdict) -> None:
    """Writes the verdict of a key.  A folder that cannot be written is left alone."""
    packed = zlib.compress(json.dumps(encode(verdict)).encode(), 1)
    front = hashlib.sha256(entry.encode() + packed).digest()
    path = _path(entry)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(front + packed)
        os.replace(scratch, path)
        _forget(path.parent)
    except OSError:
        with suppress(OSError):
            os.unlink(scratch)


def size() -> tuple[int, int]:
    """Entries, and the bytes of all."""
    sizes = []
    for path in folder().glob(f"*{SUFFIX}"):
        with suppress(OSError):
            sizes.append(path.stat().st_size)
    return len(sizes), sum(sizes)


def _path(entry: str) -> Path:
    return folder() / f"{entry}{SUFFIX}"


def _forget(where: Path) -> None:
    """Removes the entries written first, a quarter of them, where there are too many; and what a
    writer that was killed left behind."""
    left = _aged(where, "*.tmp")
    old = time_ns() - ABANDONED
    gone = [path for written, path in left if written < old]
    entries = _aged(where, f"*{SUFFIX}")
    if len(entries) > MOST:
        gone += [path for _, path in entries[: len(entries) - 3 * MOST // 4]]
    for path in gone:
        path.unlink(missing_ok=True)


def _aged(where: Path, pattern: str) -> list[tuple[int, Path]]:
    """When files were written, and they, the oldest first."""
    aged = []
    for path in where.glob(pattern):
        with suppress(OSError):  # another process removes it
            aged.append((path.stat().st_mtime_ns, path))
    return sorted(aged)
