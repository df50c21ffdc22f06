"""The first stage: programs are made, checked, compiled, and packed with the values they give."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from campaigns.gpu.programs import Program
from campaigns.named import program_of
from exogpu.api import Procedure
from exogpu.cli.loader import load
from exogpu.codegen.toolchain import CompileError, compile_cubin
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.gpu_trial import run_data
from exogpu.gpu_trial.pool import pack
from exogpu.gpu_trial.run_data import write_packed

SECONDS = 60.0
"""For the check of one program."""

INEXACT = 1e-4
"""Relative error of programs with `exp`, which differs in its last bits; all others are exact."""


def emit_dirty(folder: Path) -> None:
    """The kernel that fills shared memory before each run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dirty.cubin").write_bytes(compile_cubin(run_data.SOURCE, "sm_90a").cubin)


def emit_one(case: str) -> Mapping[str, Any]:
    """Emits `FOLDER:NAME`, or `FOLDER:NAME:all` for arrivals by all threads.

    The answer's `state` is `packed`, or says why not.
    """
    start = perf_counter()
    folder, name, *more = case.split(":")
    program = program_of(name)
    state = emit_program(program, Path(folder), arrive_all=bool(more))
    seconds = round(perf_counter() - start, 2)
    return {**state, "features": sorted(program.features), "seconds": seconds}


def procedure_of(program: Program, folder: Path) -> Procedure:
    """The program read from a file, as a user's would be.  Raises ExoGpuError."""
    file = folder / "programs" / f"{program.name}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(program.source)
    (unit,) = load(str(file))
    if unit.procedure is None:
        raise ExoGpuError(unit.diagnostics)
    return unit.procedure


def emit_program(program: Program, folder: Path, *, arrive_all: bool = False) -> Mapping[str, Any]:
    """Checks, compiles and packs a program into a folder; the answer has its `state`."""
    stage = "check"
    try:
        procedure = procedure_of(program, folder)
        verdict = procedure.check(timeout=SECONDS)
        if verdict.word == "error":
            return _refused("ill-formed", ExoGpuError(verdict.diagnostics))
        if verdict.word != "proved":
            kind = verdict.hazards[0].kind.value if verdict.hazards else verdict.reason
            return {"state": verdict.word, "what": kind}
        stage = "compile"
        packed = pack(
            procedure,
            program.sizes,
            program.source,
            tolerance=INEXACT if "exp" in program.features else 0.0,
            arrive_all=arrive_all,
        )
        write_packed(folder / f"{program.name}.zip", packed)
        return {"state": "packed"}
    except ExoGpuError as error:
        return _refused("ill-formed" if stage == "check" else "no lowering", error)
    except CompileError as error:
        return {"state": "no cubin", "what": error.problem[-600:]}
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return {"state": "crash", "what": f"{stage}: {type(error).__name__}: {error} ({place})"}


def _refused(state: str, error: ExoGpuError) -> Mapping[str, Any]:
    first = error.diagnostics[0]
    return {"state": state, "code": first.code, "line": first.span.line, "what": first.message}
