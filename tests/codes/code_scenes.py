"""What is there when commands of examples of codes are given: files, and what a machine lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from exogpu.api import Procedure
from exogpu.cli import loader
from exogpu.codegen import compiled_kernel
from exogpu.codegen.toolchain import compilers
from exogpu.pipeline.check import Answer
from exogpu.solvers import smt
from exogpu.symbolic.search.analysis import Findings

KERNEL = """\
import os
from exogpu import *


@proc
def {name}({sizes}, x: f32[M, 64] @ CudaGmemLinear):
    assert {asserted}
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            for t in cuda_threads(0, 64, unit=cuda_thread):
                x[m, t] = 1.0
"""
GEMM = KERNEL.format(name="gemm", sizes="M: size, N: size, K: size", asserted="M >= 1")
GEMV = KERNEL.format(name="gemv", sizes="M: size, K: size", asserted="K % 8 == 0")
RING = GEMM.replace(
    "            for t", "            z: barrier @ CudaMbarrier\n            for t"
).replace(
    "= 1.0\n",
    "= 1.0\n            Arrive(cuda_in_order) >> z\n            Await(z, cuda_in_order, ~0)\n"
    "            Fence(cuda_in_order, cuda_in_order)\n",
)
FILES = {"gemm.py": GEMM, "gemv.py": GEMV, "kernels/gemm.py": GEMM, "ring.py": RING}

Plant = Callable[[pytest.MonkeyPatch], None]


def raising(error: BaseException) -> Callable[..., None]:
    """A function that fails."""

    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def package_missing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loader, "load", raising(ModuleNotFoundError("no", name="islpy")))
    patch.setattr("exogpu.cli.doctor.importlib.import_module", raising(ImportError("no")))


def code_generation_fails(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compiled_kernel, "lowered", raising(ZeroDivisionError("planted")))
    patch.setattr(Procedure, "emit", raising(ZeroDivisionError("planted")))


def loading_fails(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Procedure, "emit", raising(ZeroDivisionError("planted")))


def no_answer(patch: pytest.MonkeyPatch) -> None:
    reason = Answer(Findings((), (), 0, False), reason="planted")
    patch.setattr("exogpu.pipeline.check.answer", lambda program, tell: reason)


def no_memory(patch: pytest.MonkeyPatch) -> None:
    """For arrays of more than some thousand rows."""
    from exogpu.cli import random_run

    made = random_run.__dict__["_random"]

    def fill(generator: object, dtype: object, shape: tuple[int, ...]) -> object:
        if shape[:1] > (10_000,):
            raise MemoryError
        return made(generator, dtype, shape)

    patch.setattr(random_run, "_random", fill)


def disk_full(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("exogpu.cli.check_command.draw_verdict", raising(OSError(28, "No space left")))
    patch.setattr("exogpu.cli.exit_handler._silence", lambda: None)


def no_compiler(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(compilers, "find_toolchain", lambda: None)


def no_gpu(patch: pytest.MonkeyPatch) -> None:
    from exogpu.codegen.runtime import driver
    from exogpu.codegen.runtime.manifest import LaunchError

    patch.setattr(
        driver, "gpus", raising(LaunchError("there is no GPU", "take a machine with one"))
    )


def no_cvc5(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(smt, "cvc5_version", lambda: None)


def nothing(patch: pytest.MonkeyPatch) -> None:
    """The machine is as it is."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What is there when a command is given."""

    plant: Plant = nothing
    files: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    """Commands that ran already."""
    status: int = 2
    """Of the example."""
    lifted: bool = False
    """Whether the repair is that what was planted is no longer so: the same command runs again."""
    again: bool = False
    """Whether the example's command runs again after the repair."""
    says: str = ""
    """What the repair's output says that the example's does not, where the repair tells more."""
    good: int = 0
    """Exit status of the repair."""


DOWN = {"gemm.py": "# a comment\n" * 47 + GEMM}
"""An access stands on line 58."""
SCENES: Mapping[str, Scene] = {
    "X901": Scene(),
    "X902": Scene(),
    "X903": Scene(),
    "X904": Scene(),
    "X940": Scene(package_missing, says="pip install", good=2),
    "X941": Scene(),
    "X945": Scene(),
    "X946": Scene(),
    "X947": Scene(says="B601  "),
    "X948": Scene(),
    "X949": Scene(),
    "X955": Scene(loading_fails, status=4, says="Traceback", good=4),
    "X956": Scene(no_memory, status=3),
    "X957": Scene(disk_full, lifted=True),
    "X958": Scene(),
    "X960": Scene(no_answer, status=3),
    "X961": Scene(no_compiler, lifted=True),
    "X962": Scene(),
    "X963": Scene(),
    "X964": Scene(no_gpu, good=2),
    "X965": Scene(no_gpu, says="exogpu"),
    "X970": Scene(before=("exogpu report gemm.py -o proofs",)),
    "X971": Scene(
        before=("exogpu report gemm.py -o proofs", "cut proofs/gemm/certificate.json"), again=True
    ),
    "X972": Scene(no_cvc5, before=("exogpu report gemm.py -o proofs",), lifted=True),
    "X980": Scene(),
    "X981": Scene(files=DOWN),
    "X982": Scene(files=DOWN),
    "X983": Scene(before=("exogpu report gemm.py -o old", "mkdir empty")),
    "G810": Scene(),
    "G813": Scene(code_generation_fails, status=0, says="Traceback", good=4),
}
"""Examples that are commands."""

TEXTS: Mapping[str, tuple[str, str]] = {
    "X942": ("from exogpu import *\n\nHERE\n", "exogpu check k.py"),
    "X943": ("HERE\n", "exogpu check k.py"),
    "X944": (f"import os\n\nHERE\n\n{GEMM}", "exogpu check k.py"),
}
"""Examples that are the text of a file, and the command that reads it."""
