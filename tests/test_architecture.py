"""docs/architecture.md names what is there, and every room."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text()
ROOMS = re.findall(r"^\| `([\w/.]+)` \|.*\| (.*?) ?\|$", PAGE, re.MULTILINE)


def test_every_file_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`((?:[\w-]+/)+[\w-]+(?:\.py)?|[\w-]+/)`", PAGE))
    rooms = (ROOT / "exogpu" / "frontend", ROOT / "exogpu" / "schedule")
    roots = (ROOT, ROOT / "exogpu", *rooms, ROOT / "docs")
    lost = [name for name in named if not any((root / name).exists() for root in roots)]
    assert named and not lost


def test_the_entrance_of_each_room_is_there() -> None:
    doors = [(room, file) for room, files in ROOMS for file in re.findall(r"`([^`]+)`", files)]
    assert len(doors) > 10
    assert not [door for door in doors if not (ROOT / door[0] / door[1]).exists()]


def test_every_room_is_on_the_page() -> None:
    rooms = {f"exogpu/{path.parent.name}" for path in (ROOT / "exogpu").glob("*/__init__.py")}
    rooms |= {f"symbolic/{path.parent.name}" for path in (ROOT / "symbolic").glob("*/__init__.py")}
    # These are links to the folders of the root; the last holds other names of exogpu.isa.
    rooms -= {"exogpu/symbolic", "exogpu/codegen", "exogpu/platforms"}
    assert {room for room, _ in ROOMS} == rooms | {"codegen", "exogpu/api.py"}
