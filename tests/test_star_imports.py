"""A page of names is imported whole, and hides none of the language's or of scheduling's."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest

import exogpu
import exogpu.hw
import exogpu.isa
import exogpu.platforms
import exogpu.schedule
from exogpu import hw, isa, platforms, schedule

OURS = {n: getattr(m, n) for m in (exogpu, schedule) for n in m.__all__}
PAGES = [
    page.name
    for folder in (hw, isa, platforms)
    for page in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}.")
]


def hidden(module: ModuleType) -> set[str]:
    names = getattr(module, "__all__", [n for n in vars(module) if not n.startswith("_")])
    return {n for n in names if n in OURS and getattr(module, n) is not OURS[n]}


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_hidden(name: str) -> None:
    assert not hidden(importlib.import_module(name))


def test_what_hides_is_found() -> None:
    page = ModuleType("page")
    page.replace = str.replace
    assert hidden(page) == {"replace"}
