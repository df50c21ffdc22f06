"""Compiled texts on disk, addressed by content: a file an entry, whole or absent.

The name of an entry is the digest of all that its contents depend on, so an entry never changes
and two processes that make the same one may both write it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def cache_folder() -> Path:
    """`exogpu` in the user's cache directory; XDG_CACHE_HOME moves it on Linux."""
    from platformdirs import user_cache_path

    return user_cache_path("exogpu") / "compiled"


def entry(folder: Path, determinants: Sequence[str]) -> Path:
    """The file of what these texts determine."""
    digest = hashlib.sha256()
    for text in determinants:
        data = text.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return folder / f"{digest.hexdigest()}.zip"


def load(path: Path) -> Mapping[str, bytes] | None:
    """The parts of an entry; None where there is none, or it is damaged (by its checksums)."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except (OSError, ValueError, zipfile.BadZipFile):
        return None


def store(path: Path, parts: Mapping[str, bytes]) -> None:
    """Write an entry at once, by a rename.  A folder that cannot be written is left alone."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    except OSError:
        return
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for name, part in parts.items():
                archive.writestr(name, part)
        os.replace(scratch, path)
    except OSError:
        Path(scratch).unlink(missing_ok=True)
