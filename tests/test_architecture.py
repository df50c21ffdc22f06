"""docs/architecture.md names what is there, and every room, in the order of the import contract."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text()
ROOMS = re.findall(r"^\| `([\w.]+)` \|.*\| (.*?) ?\|$", PAGE, re.MULTILINE)


def is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").exists()


def test_every_module_that_the_pages_name_is_there() -> None:
    for page in sorted((ROOT / "docs").glob("*.md")):
        named = set(re.findall(r"`(exogpu(?:\.\w+)+)`", page.read_text()))
        lost = [n for n in named if not is_module(n) and not is_module(n.rpartition(".")[0])]
        assert not lost, page.name


def test_every_module_of_the_page_is_a_module() -> None:
    named = set(re.findall(r"`(exogpu(?:\.\w+)+)`", PAGE))
    assert len(named) > 50
    assert not [name for name in named if not is_module(name)]


def test_every_folder_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`((?:[\w-]+/)+)`", PAGE))
    assert named and not [name for name in named if not (ROOT / name).is_dir()]


def test_the_entrance_of_each_room_is_in_it() -> None:
    doors = [(room, door) for room, text in ROOMS for door in re.findall(r"`([^`]+)`", text)]
    assert len(doors) > 10
    assert not [door for room, door in doors if not door.startswith(f"{room}.")]


def test_every_room_is_on_the_page() -> None:
    rooms = {f"exogpu.{path.parent.name}" for path in (ROOT / "exogpu").glob("*/__init__.py")}
    finders = (ROOT / "exogpu" / "symbolic").glob("*/__init__.py")
    rooms |= {f"exogpu.symbolic.{path.parent.name}" for path in finders}
    # The first has only rooms; the second holds other names of exogpu.isa.
    rooms -= {"exogpu.symbolic", "exogpu.platforms"}
    assert {room for room, _ in ROOMS} == rooms | {"exogpu.api"}


def test_rooms_stand_in_the_order_of_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (one["layers"] for one in contracts["contracts"] if one["type"] == "layers")
    height = {name.strip(): n for n, layer in enumerate(layers) for name in layer.split("|")}
    heights = [height[".".join(room.split(".")[:2])] for room, _ in ROOMS]
    assert heights == sorted(heights)


def test_rooms_that_do_not_know_each_other_are_those_of_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (one["layers"] for one in contracts["contracts"] if one["type"] == "layers")
    pairs = {frozenset(re.findall(r"exogpu\.(\w+)", layer)) for layer in layers if "|" in layer}
    told = {pair for pair in pairs if "cli" not in pair}
    prose = PAGE[PAGE.index("Imports point down") : PAGE.index("Encode, certificate")].lower()
    assert {frozenset(pair) for pair in re.findall(r"(\w+) and (\w+)", prose)} == told


def test_rooms_of_the_prover_import_rooms_below_them() -> None:
    rooms = [room for room, _ in ROOMS if room.startswith("exogpu.symbolic.")]
    for n, room in enumerate(rooms):
        for file in (ROOT / room.replace(".", "/")).glob("*.py"):
            assert not [above for above in rooms[:n] if f"{above}." in file.read_text()], file
