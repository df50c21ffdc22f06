"""Collects the kernels that Triton compiles while a program runs."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from exogpu.importing.triton_compiler import Compiled, allocated_ttgir, required_triton


@dataclass(slots=True)
class Watched:
    """The specialisations that were compiled: TTGIR without barriers, and PTX."""

    ttgir: list[str] = field(default_factory=list)
    ptx: dict[str, str] = field(default_factory=dict)
    """By TTGIR."""

    def compiled(self) -> Iterator[tuple[str, Callable[[], Compiled]]]:
        """Each kernel by name, and what Triton makes of it once barriers are placed."""
        version = required_triton()
        for text in dict.fromkeys(self.ttgir):
            found = re.search(r"tt\.func public @([\w$.]+)", text)
            name = found[1] if found else "kernel"
            yield name, partial(self._compile_text, name, text, version)

    def _compile_text(self, name: str, text: str, version: str) -> Compiled:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.ttgir"
            path.write_text(text)
            return Compiled(name, allocated_ttgir(path), self.ptx.get(text, ""), version)


@contextmanager
def watched() -> Iterator[Watched]:
    """Within it, Triton tells of each kernel that it compiles, and takes none from its cache.

    Raises RefusedError (K106) where Triton is not installed.
    """
    required_triton()
    from triton import knobs

    seen = Watched()
    key = f"exogpu-{uuid4()}"  # else a later process finds its kernels in the cache
    before = knobs.runtime.add_stages_inspection_hook

    def hook(
        backend: object = None,
        stages: dict[str, Any] | None = None,
        options: object = None,
        language: object = None,
        capability: object = None,
    ) -> tuple[str, str] | None:
        if stages is None:
            return key, key
        _wrap(stages, seen)
        return None

    knobs.runtime.add_stages_inspection_hook = hook
    try:
        yield seen
    finally:
        knobs.runtime.add_stages_inspection_hook = before


def _wrap(stages: dict[str, Any], seen: Watched) -> None:
    """Has two stages tell what they make."""
    ttgir, ptx = stages["ttgir"], stages["ptx"]
    last: list[str] = []

    def tells_ttgir(source: object, metadata: Mapping[str, object]) -> object:
        made = ttgir(source, metadata)
        last.append(made.str() if hasattr(made, "str") else str(made))
        seen.ttgir.append(last[-1])
        return made

    def tells_ptx(source: object, metadata: Mapping[str, object]) -> object:
        made = ptx(source, metadata)
        if last:
            seen.ptx[last[-1]] = str(made)
        return made

    stages["ttgir"], stages["ptx"] = tells_ttgir, tells_ptx
