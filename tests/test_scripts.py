"""Names of the package that benchmarks, campaigns, tools and examples use: each exists.

These scripts need GPUs or hours, and no test runs most of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("benchmarks", "campaigns", "examples", "tools")


def module_or_member(module: str, name: str) -> object:
    """What `from module import name` binds; None if there is nothing of this name."""
    found = getattr(import_module(module), name, None)
    if found is not None:
        return found
    try:
        return import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return None


def missing(text: str) -> Iterator[str]:
    """Yields names of the package that a text imports or reads of a module, and that are not there.

    >>> list(missing("from exogpu.ir import walk\\nfrom exogpu.ir import nothing\\nwalk.nothing"))
    ['exogpu.ir.nothing', 'walk.nothing']
    """
    tree, modules = ast.parse(text), dict[str, ModuleType]()
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("exogpu"):
            continue
        for alias in node.names:
            found = True if alias.name == "*" else module_or_member(str(node.module), alias.name)
            if found is None:
                yield f"{node.module}.{alias.name}"
            if isinstance(found, ModuleType):
                modules[alias.asname or alias.name] = found
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in modules:
                if not hasattr(modules[name], attribute):
                    yield f"{name}.{attribute}"


@pytest.mark.parametrize("room", ROOMS)
def test_scripts_name_what_there_is(room: str) -> None:
    wrong = {
        str(file.relative_to(ROOT)): names
        for file in sorted((ROOT / room).rglob("*.py"))
        if (names := [*missing(file.read_text())])
    }
    assert not wrong


def test_a_name_that_is_gone_is_noticed() -> None:
    text = "from exogpu.ir import walk\nfrom exogpu.ir import nothing\nwalk.nothing\nwalk.walk"
    assert [*missing(text)] == ["exogpu.ir.nothing", "walk.nothing"]
