"""A plugin of pytest: every procedure of the tests that is proved, packed to be run on a GPU.

    EXOGPU_COLLECT=build/collected python -m pytest -p campaigns.gpu.collecting tests/codegen
    python -m campaigns.gpu_fuzz run -o build/collected

Each is packed at up to three sizes among the smallest that its preconditions admit.  One that is
not proved, or has no lowering, is left out; `collected.txt` says why.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from functools import wraps
from itertools import islice
from pathlib import Path

import pytest

from campaigns.gpu import emitting
from exogpu import ExoGpuError
from exogpu.api import Procedure
from exogpu.codegen.toolchain import CompileError
from exogpu.gpu_trial.pool import pack
from exogpu.gpu_trial.run_data import write_packed
from exogpu.ir.printer import print_proc
from exogpu.symbolic.search.admitted_sizes import admitted

AMONG = 40
"""Admitted sizes that are looked at: the first, the last, and one between are run."""

TOLERANCE = 1e-4
"""Relative: `exp` differs in its last bits."""

_made: list[Procedure] = []
_worker = [""]


def pytest_configure(config: pytest.Config) -> None:
    """Each worker keeps what its own tests emit."""
    _worker[0] = getattr(config, "workerinput", {}).get("workerid", "")
    original = Procedure.__init__

    @wraps(original)
    def noted(self: Procedure, *given: object, **named: object) -> None:
        original(self, *given, **named)  # type: ignore[arg-type]
        _made.append(self)

    Procedure.__init__ = noted  # type: ignore[method-assign]


def pytest_sessionfinish() -> None:
    """Packs all of them, and notes what became of each."""
    folder = Path(os.environ["EXOGPU_COLLECT"]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "dirty.cubin").exists():
        emitting.emit_dirty(folder)
    lines = [f"{name}: {state}" for name, state in _packed(folder)]
    if lines:
        (folder / f"collected{_worker[0]}.txt").write_text("".join(f"{one}\n" for one in lines))


def _packed(folder: Path) -> Iterator[tuple[str, str]]:
    sources = {print_proc(one.ir): one for one in _made if one.ir is not None}
    for source, procedure in sources.items():
        name = f"{procedure.name}_{zlib.crc32(source.encode()):08x}"
        file = folder / f"{name}.zip"
        if file.exists():
            continue
        try:
            if not procedure.check(timeout=60):
                yield name, "not proved"
                continue
            some = list(islice(admitted(procedure.amir()), AMONG))
            sizes = [one for one in some if one is not None]
            chosen = [sizes[at] for at in sorted({0, len(sizes) // 2, len(sizes) - 1})]
            write_packed(file, pack(procedure, chosen, source, tolerance=TOLERANCE))
            yield name, "packed"
        except (ExoGpuError, CompileError) as error:
            yield name, str(error).splitlines()[0]
