"""Modules of kernels with one mistake in their text."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import patch


def changed(module: ModuleType, old: str, new: str, folder: Path) -> ModuleType:
    """The module with one text in the place of another."""
    assert module.__file__ is not None
    source = Path(module.__file__)
    text = source.read_text()
    assert old in text
    file = folder / source.name
    file.write_text(text.replace(old, new))
    found = ModuleType("changed")
    found.__file__ = str(file)
    with patch.dict(sys.modules, {found.__name__: found}):  # dataclasses look their module up
        exec(compile(file.read_text(), str(file), "exec"), vars(found))
    return found
