"""The text of an editor in place of the disk's, for a file that is loaded and what it imports."""

from __future__ import annotations

import importlib
import io
import linecache
import os
import sys
import tokenize
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from types import ModuleType

from exogpu.cli.files import BUFFERS


def use(buffers: Mapping[str, str]) -> None:
    """From here on these texts, by absolute path, are what this process reads."""
    importlib.invalidate_caches()
    for path, text in buffers.items():
        BUFFERS[path] = _encoded(text)
        lines = io.StringIO(text, newline=None).readlines()
        # Without a time of change an entry is never compared with the disk.
        linecache.cache[path] = (len(text), None, lines, path)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _encoded(text: str) -> bytes:
    """In the encoding that it declares, since Python decodes it by that."""
    data = text.encode(errors="replace")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data if encoding.startswith("utf-8") else text.encode(encoding)
    except (SyntaxError, UnicodeEncodeError):
        return data


class _Loader(SourceFileLoader):
    """Reads a buffer, and neither reads nor writes bytecode."""

    def path_stats(self, path: str | bytes) -> Mapping[str, float]:
        raise OSError  # there is no bytecode to compare with

    def get_data(self, path: str | bytes) -> bytes:
        return BUFFERS[os.fsdecode(path)]


class _Finder(MetaPathFinder):
    """Finds the modules that are open in the editor, saved or not."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, path, target)
        if found is not None:
            at = found.origin or ""
            return self._spec(name, os.path.abspath(at)) if at.endswith(".py") else None
        for folder in sys.path if path is None else path:
            last = name.rpartition(".")[2]
            if (made := self._spec(name, os.path.abspath(f"{folder}/{last}.py"))) is not None:
                return made
        return None

    def _spec(self, name: str, path: str) -> ModuleSpec | None:
        if path not in BUFFERS:
            return None
        return spec_from_file_location(name, path, loader=_Loader(name, path))
