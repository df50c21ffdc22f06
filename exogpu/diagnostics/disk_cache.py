"""Cache of decisions on disk: files that never change, so that processes need not wait for another.

The name of an entry is a digest of all that determines its contents, with the program that decides
among it, which is exogpu's own files and the versions of Python, Z3 and islpy.  An entry is written
whole under another name and renamed.  It has a digest in front: what is damaged is no entry, nor is
what stands under another's name.
"""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from time import time_ns
from typing import Final

from exogpu.diagnostics.process_start import STARTED

VARIABLE: Final = "EXOGPU_CACHE"
"""Names another folder than the user's."""

LARGEST: Final = 1 << 28
"""Bytes of an entry that is read, once unpacked."""

ABANDONED: Final = 3600 * 10**9
"""Nanoseconds after which what is half written is nobody's."""

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
    """Tests whether exogpu's files are as they were when this process began to read them: the code
    in memory is then that of the files."""
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


def read_entry(entry: str, suffix: str) -> bytes | None:
    """The contents of an entry; None where there is none that can be read."""
    try:
        path = _path(entry, suffix)
        data = path.read_bytes() if path.is_file() else b""
        packed = data[_FRONT:]
        if hashlib.sha256(entry.encode() + packed).digest() != data[:_FRONT]:
            return None
        opened = zlib.decompressobj()
        text = opened.decompress(packed, LARGEST)
    except (OSError, ValueError, zlib.error):
        return None
    return text if opened.eof else None


def write(entry: str, suffix: str, text: bytes) -> Path | None:
    """Writes an entry, and gives the folder.  One that cannot be written is left alone."""
    packed = zlib.compress(text, 1)
    front = hashlib.sha256(entry.encode() + packed).digest()
    path = _path(entry, suffix)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    except OSError:
        return None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(front + packed)
        os.replace(scratch, path)
    except OSError:
        with suppress(OSError):
            os.unlink(scratch)
        return None
    return path.parent


def size(suffix: str) -> tuple[int, int]:
    """Entries, and the bytes of all."""
    sizes = []
    for path in folder().glob(f"*{suffix}"):
        with suppress(OSError):
            sizes.append(path.stat().st_size)
    return len(sizes), sum(sizes)


def _path(entry: str, suffix: str) -> Path:
    return folder() / f"{entry}{suffix}"


def forget(where: Path, suffix: str, most: int) -> None:
    """Removes the entries written first, a quarter of them, where there are more than `most`; and
    what a writer that was killed left behind."""
    left = _aged(where, "*.tmp")
    old = time_ns() - ABANDONED
    gone = [path for written, path in left if written < old]
    entries = _aged(where, f"*{suffix}")
    if len(entries) > most:
        gone += [path for _, path in entries[: len(entries) - 3 * most // 4]]
    for path in gone:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _aged(where: Path, pattern: str) -> list[tuple[int, Path]]:
    """Returns files with their times of writing, the oldest first."""
    aged = []
    for path in where.glob(pattern):
        with suppress(OSError):  # another process removes it
            aged.append((path.stat().st_mtime_ns, path))
    return sorted(aged)
