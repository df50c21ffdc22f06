"""The examples of diagnostic codes put into whole files, which tell what is found in them.

A frame is a file with the line `HERE`, where the example stands, or its repair.  Lines after which
stands `# bad` or `# good` are only in the file of one of them.  Where a repair stands beside what
it repairs, `BAD` is the example, in both files, and `GOOD` the repair.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, indent

import pytest

from exogpu.cli.loader import load
from exogpu.codegen.toolchain import find_toolchain
from exogpu.diagnostics.codes import CODES
from exogpu.diagnostics.errors import ExoGpuError

HEAD = """\
from __future__ import annotations
from exogpu import *
from exogpu.hw.operands import CUDA_ATOMIC, CUDA_MEMORY, CUDA_REGISTER
from exogpu.hw.units import cuda_thread, cuda_warp
from exogpu.isa.cuda import *
from exogpu.isa.sm80 import *
from exogpu.isa.sm90 import *
"""


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around an example."""

    text: str
    emitted: bool = False
    """Whether the code is one of code generation."""
    compiled: bool = False
    """Whether it is one of what ptxas makes of the kernel."""
    spelt: tuple[tuple[str, str], ...] = ()
    """Of the example, what stands for more."""
    checked: bool = True
    """Whether what was read is also checked."""


def parts(code: str) -> tuple[str, str]:
    """The example of a code, and its repair; a repair without a text of its own is empty."""
    bad, _, rest = CODES[code].example.partition("\n# repair")
    return bad, rest.partition("\n")[2]


def cpu(body: str, parameters: str = "n: size, x: f32[8] @ DRAM", **options: bool) -> Frame:
    """A procedure with this body."""
    lines = indent(dedent(body).strip("\n"), "    ")
    return Frame(f"@proc\ndef k({parameters}):\n{lines}\n    pass\n", **options)


def task(
    body: str,
    launch: str = "blockDim=128",
    parameters: str = "M: size, x: f32[M] @ CudaGmemLinear",
    **options: bool,
) -> Frame:
    """A kernel with this body of its only task."""
    lines = indent(dedent(body).strip("\n"), "        ")
    head = f"with CudaDeviceFunction({launch}):\n    for task in cuda_tasks(0, 1):\n"
    return cpu(f"{head}{lines}\n        pass", parameters, **options)


def filled(frame: Frame, bad: str, good: str, kind: str) -> str:
    """The file of a frame, with `bad` or `good` in it."""
    lines: list[str] = []
    snippet = {"bad": bad, "good": good}[kind]
    other = {"bad": "good", "good": "bad"}[kind]
    for line in frame.text.splitlines():
        if line.endswith(f"# {other}"):
            continue
        line = line.removesuffix(f"  # {kind}")
        shift = line[: len(line) - len(line.lstrip())]
        match line.strip():
            case "HERE":
                lines.append(indent(snippet.replace(": ...", ": pass"), shift))
            case "BAD":
                lines.append(indent(bad, shift))
            case "GOOD" if kind == "good":
                lines.append(indent(good, shift))
            case "GOOD":
                continue
            case _:
                lines.append(line)
    return f"{HEAD}\n\n" + "\n".join(lines) + "\n"


def found_in(file: Path, frame: Frame) -> set[str]:
    """The codes of all that is found in a file: by reading, checking, and of code generation."""
    units = load(str(file))
    codes = {d.code for unit in units if unit.procedure is None for d in unit.diagnostics}
    for unit in units:
        if unit.procedure is None:
            continue
        codes |= {d.code for d in unit.procedure.diagnostics}
        if unit.procedure.diagnostics or not frame.checked:
            continue
        if frame.compiled:
            if find_toolchain() is None:
                pytest.skip("there is no CUDA compiler")
            codes |= {d.code for d in unit.procedure.compile().warnings}
        elif frame.emitted:
            try:
                unit.procedure.emit(unchecked=True)
            except ExoGpuError as error:
                codes |= {d.code for d in error.diagnostics}
        else:
            verdict = unit.procedure.check()
            assert verdict.word != "undecided", verdict.reason
            codes |= {hazard.code for hazard in verdict.hazards}
            codes |= {d.code for d in (*verdict.diagnostics, *verdict.idle)}
    return codes


def outcomes(code: str, frame: Frame, folder: Path) -> tuple[set[str], set[str]]:
    """What is found in the file with the example, and in that with the repair."""
    bad, good = parts(code)
    for short, long in frame.spelt:
        assert short in bad
        bad = bad.replace(short, long)
    made = []
    for kind in ("bad", "good"):
        file = folder / f"{kind}_{code.lower()}.py"
        file.write_text(filled(frame, bad, good, kind))
        # Most frames fill no variable.
        made.append(found_in(file, frame) - ({"H710"} - {code}))
    return made[0], made[1]


def remedies(code: str) -> list[str]:
    """What the example names as its repair: the words, and the text."""
    return re.findall(r"# repair:? ?(.*)", CODES[code].example)
