"""A compiled program with its data and the values that it must give, in one file.

A run needs nothing else: neither the solvers, nor a compiler, nor the program's meaning.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Arrays: TypeAlias = Mapping[str, npt.NDArray[np.generic]]
"""As a device holds them: bf16 as its bits."""

_WHEN: Final = (1980, 1, 1, 0, 0, 0)
"""Equal programs give equal files."""


@dataclass(frozen=True, slots=True)
class At:
    """A program's data at some sizes."""

    sizes: Mapping[str, int]
    given: Arrays
    """Before the run; what is only written is poisoned."""
    wanted: Arrays
    """Of the arrays that are written."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A program that can be run and judged."""

    name: str
    source: str
    """For a reader, and to make it again."""
    manifest: Mapping[str, Any]
    cubin: bytes
    library: bytes | None
    """The shared object of a program that does more on the CPU than to launch kernels."""
    tolerance: float
    """Relative; 0 where the values are exact."""
    at: tuple[At, ...]


def write_packed(path: Path, packed: Packed) -> None:
    """Write the file at once or not at all."""
    head = {"name": packed.name, "tolerance": packed.tolerance}
    head["sizes"] = [dict(one.sizes) for one in packed.at]
    parts = {
        "head.json": json.dumps(head).encode(),
        "program.py": packed.source.encode(),
        "manifest.json": json.dumps(packed.manifest).encode(),
        "kernel.cubin": packed.cubin,
    }
    if packed.library is not None:
        parts["host.so"] = packed.library
    for number, one in enumerate(packed.at):
        for what, arrays in (("given", one.given), ("wanted", one.wanted)):
            for name, array in arrays.items():
                parts[f"{number}/{what}/{name}.npy"] = _npy(array)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name, _WHEN), data, zipfile.ZIP_DEFLATED)
    part.replace(path)


def read_packed(path: Path) -> Packed:
    """The inverse of `write_packed`."""
    with zipfile.ZipFile(path) as archive:
        names = frozenset(archive.namelist())
        head = json.loads(archive.read("head.json"))

        def arrays(number: int, what: str) -> dict[str, npt.NDArray[np.generic]]:
            folder = f"{number}/{what}/"
            inside = sorted(n for n in names if n.startswith(folder))
            return {
                n.removeprefix(folder).removesuffix(".npy"): np.load(io.BytesIO(archive.read(n)))
                for n in inside
            }

        return Packed(
            head["name"],
            archive.read("program.py").decode(),
            json.loads(archive.read("manifest.json")),
            archive.read("kernel.cubin"),
            archive.read("host.so") if "host.so" in names else None,
            head["tolerance"],
            tuple(
                At(sizes, arrays(number, "given"), arrays(number, "wanted"))
                for number, sizes in enumerate(head["sizes"])
            ),
        )


def _npy(array: npt.NDArray[np.generic]) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()
