"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET[::PROC]",
        help="A .py file, a folder, or a dotted module or package; ::PROC chooses one procedure.",
    ),
]
Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET[::PROC]",
        help="A .py file, a folder, or a dotted module or package; ::PROC chooses one procedure.",
    ),
]
At = Annotated[
    list[str] | None,
    typer.Option("--at", metavar="M=512,N=512", help="The sizes; may be given several times."),
]
AtUndecided = Annotated[
    list[str] | None,
    typer.Option(
        "--at",
        metavar="M=512,N=512",
        help="The sizes to check a procedure at that is undecided for all sizes; what is refuted "
        "at any size is refused, even if it is safe at these.",
    ),
]
PolicyOption = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="[ptx|paper]",
        help="Which rules hold; strict is the name that ptx had.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


Scripts = Annotated[
    Path | None,
    typer.Option("--scripts", metavar="DIR", help="Write what solvers are asked, as .smt2 files."),
]
Timeout = Annotated[
    float | None, typer.Option(min=0, metavar="S", help="Seconds that one check may take.")
]
Memory = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="GB",
        help="Gigabytes of memory that one check may use; half of the machine's by default.",
    ),
]


class Solver(Enum):
    """The solver that answers certificates again."""

    Z3 = "z3"
    CVC5 = "cvc5"
    ALL = "all"


Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="OLD",
        help="Compare with an earlier report or certificate, or with another target: a page, and "
        "Markdown on standard output.",
    ),
]

KernelArguments = Annotated[
    str | None,
    typer.Option("--args", metavar="ARGS", help="Of a Triton kernel: fp16[2048, 64], BLOCK=8."),
]
Count = Annotated[int | None, typer.Option(min=1, help="Of a Triton kernel.")]
KernelArch = Annotated[str, typer.Option(help="Of a Triton kernel.")]
