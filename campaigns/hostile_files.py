"""Hostile files for the command line, each made from a generator of random numbers alone."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

ROOT: Final = Path(__file__).parent.parent

VERDICTS: Final = frozenset({0, 1, 2, 3})
WRONG: Final = frozenset({2})


@dataclass(frozen=True, slots=True)
class Case:
    """A call of the program in a folder of its own."""

    kind: str
    arguments: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    specials: tuple[tuple[str, str], ...] = ()
    """Other kinds of files: fifo, socket, folder, shut (not readable), or the link's target."""
    allowed: frozenset[int] = VERDICTS
    streams: str = ""
    """Where the output goes: full, closed, pipe, or to the judge."""


# --- calls --------------------------------------------------------------------------------------


def call(rng: Random, target: str, sizes: tuple[str, ...] = ()) -> tuple[str, ...]:
    """One of the commands on a target."""
    at = ",".join(f"{name}={rng.choice((1, 2, 3, 4, 7, 8, 64, 0, -1))}" for name in sizes)
    options = (*(("--at", at) if at and rng.random() < 0.3 else ()), "--timeout", "5")
    match rng.randrange(14):
        case 0 | 1 | 2:
            return ("check", target, *options)
        case 3 | 4:
            return ("check", target, "--json", *options)
        case 5:
            return ("check", target, "--sarif", "s.json", "--junit", "j.xml", *options)
        case 6:
            return ("check", target, "--redundant", *options)
        case 7:
            return ("compile", target, "-o", "out", *options)
        case 8:
            return ("compile", target, "-o", "out", "--unchecked", "--timeout", "5")
        case 9:
            return ("run", target, "--random", *(("--at", at) if at else ()))
        case 10:
            return ("report", target, "-o", "out", *options)
        case 11:
            return ("threads", target, *(("--relations",) * rng.randrange(2)))
        case 12:
            return ("amir", target, *(("--json",) * rng.randrange(2)))
        case _:
            return ("why", f"{target}:{rng.randrange(1, 60)}")


def on_file(rng: Random, kind: str, text: bytes, sizes: tuple[str, ...] = ("M", "K")) -> Case:
    """A command on a file of this text, or on its folder, where it stands beside a good file."""
    if rng.random() < 0.2:
        files = {"sub/k.py": text, "sub/good.py": GOOD}
        made = Case(kind, call(rng, "sub", sizes), files)
    else:
        made = Case(kind, call(rng, "k.py", sizes), {"k.py": text})
    return made if is_python(text) else replace(made, allowed=WRONG)


def is_python(text: bytes) -> bool:
    """Tests whether Python compiles it."""
    try:
        compile(text, "k.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return False
    return True


GOOD: Final = b"""\
from exogpu import *

@proc
def good(M: size, x: f32[M, 32] @ CudaGmemLinear, y: f32[M, 32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for m in cuda_tasks(0, M):
            tile: f32[32] @ CudaSmemLinear
            for t in cuda_threads(0, 32, unit=cuda_thread):
                tile[t] = x[m, t]
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[m, t] = tile[31 - t]
            Fence(cuda_in_order, cuda_in_order)
"""

HEAD: Final = "from exogpu import *\n@proc\ndef k(n: size, i: index, x: f32[n + 4] @ DRAM):\n"


@cache
def _real() -> tuple[bytes, ...]:
    """Kernels as people wrote them; the quick ones several times."""
    quick = (*sorted((ROOT / "examples").glob("*.py")), ROOT / "exogpu/kernels/gemv_f32.py")
    slow = sorted((ROOT / "exogpu/kernels").glob("gemm*.py"))
    cases = sorted((ROOT / "tests/cases").rglob("*.py"))
    paths = (*quick, *quick, *cases, *slow)
    return (*(path.read_bytes() for path in paths), *(GOOD,) * len(quick))


# --- files that are no kernels any more ---------------------------------------------------------


def _garbage(rng: Random) -> Case:
    length = rng.choice((0, 1, 10, 300, 5000))
    match rng.randrange(4):
        case 0:
            text = rng.randbytes(length)
        case 1:
            text = bytes(rng.choice(b" \n\t()[]{}:=+-*/@#'\"\\abc019.,~") for _ in range(length))
        case 2:
            text = " ".join(rng.choice(_WORDS) for _ in range(length // 4)).encode()
        case _:
            coding = rng.choice(("utf-16", "latin-1", "utf-7", "rot13", "nonsense", "utf-8-sig"))
            text = f"# coding: {coding}\n".encode() + GOOD + rng.randbytes(length % 7)
    return on_file(rng, "garbage", text)


_TOKENS: Final = """
from exogpu import * @proc : ( ) [ ] , = + - * / ~ >> size index f32 i8 barrier CudaSmemLinear
CudaMbarrier Fence Arrive Await seq cuda_tasks cuda_threads x n k 0 1
"""
_WORDS: Final = (*keyword.kwlist, "\n", " \n", *_TOKENS.split())


def _cut(rng: Random) -> Case:
    text = rng.choice(_real())
    return on_file(rng, "cut off", text[: rng.randrange(len(text))])


def _flipped(rng: Random) -> Case:
    text = bytearray(rng.choice(_real()))
    for _ in range(rng.choice((1, 1, 1, 2, 8, 100))):
        text[rng.randrange(len(text))] ^= 1 << rng.randrange(8)
    return on_file(rng, "bits flipped", bytes(text))


def _shuffled(rng: Random) -> Case:
    """Whole lines and words moved: most of it is still Python."""
    lines = rng.choice(_real()).decode().splitlines()
    for _ in range(rng.choice((1, 1, 2, 5))):
        a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(5):
            case 0:
                lines[a], lines[b] = lines[b], lines[a]
            case 1:
                lines.insert(a, lines[b])
            case 2 if len(lines) > 1:
                del lines[a]
            case 3:
                words = lines[a].split(" ")
                words[rng.randrange(len(words))] = rng.choice(_WORDS)
                lines[a] = " ".join(words)
            case _:
                digits = "0123456789"
                new = rng.choice(("0", "1", "-1", "3", "33", "4096", "10**20", "n", "1.5"))
                lines[a] = "".join(
                    new if c in digits and rng.random() < 0.3 else c for c in lines[a]
                )
    return on_file(rng, "lines moved", "\n".join(lines).encode() + b"\n")


# --- programs that are too much -----------------------------------------------------------------


def _deep(rng: Random) -> Case:
    n = rng.choice((5, 40, 95, 101, 400, 3000, 20000))
    few = min(n, 400)
    indented = "".join("    " * (d + 1) + f"if n > {d}:\n" for d in range(few))
    forms = (
        "    x[0] = " + " + ".join(["x[1]"] * n),
        "    x[0] = " + "-" * n + "x[1]",
        "    x[0] = " + "(" * n + "x[1]" + ")" * n,
        "    x[0] = " + "relu(" * n + "x[1]" + ")" * n,
        "    x[" + " + ".join(["n"] * n) + f" - {n - 1} * n] = 1.0",
        "    x[" + "(" * n + "n" + " / 2)" * n + "] = 1.0",
        "    x[" + "-" * n + "n] = 1.0",
        "    if " + " and ".join(["n < 5"] * n) + ":\n        x[0] = 1.0",
        "    if " + " < ".join(["n"] * n) + ":\n        x[0] = 1.0",
        "    if " + "not " * n + "n < 5:\n        x[0] = 1.0",
        "    assert " + " or ".join(["n > 0"] * n) + "\n    x[0] = 1.0",
        "    y: f32[" + "+".join(["n"] * n) + "] @ DRAM\n    y[0] = 1.0",
        f"{indented}{'    ' * (few + 1)}x[0] = 1.0",
        "    pass" + "".join(f"\n    w{d} = {f'w{d - 1}' if d else 'x'}[0:n]" for d in range(few)),
        "    Fence(cuda_in_order) " + ">> x " * n,
        "    x[0] = " + "[" * n + "0" + "]" * n,
        "    x[0] = 1.0\n" + _chain(min(few, 12), rng.choice(("n", "n + n", "n + 1", "2 * n - n"))),
        "    x[0] = 1.0\n" + _doubling(min(n, 40)),
        "    if n == 0:\n        pass\n"
        + "".join(f"    elif n == {d}:\n        pass\n" for d in range(few)),
    )
    text = HEAD + rng.choice(forms) + "\n"
    return on_file(rng, "deep", text.encode(), ("n", "i"))


def _chain(length: int, argument: str) -> str:
    return "".join(
        f"@proc\ndef k{d}(n: size, i: index, x: f32[n + 4] @ DRAM):\n"
        f"    k{d - 1 if d else ''}({argument}, i + 1, x)\n"
        for d in range(length)
    )


def _doubling(length: int) -> str:
    return "".join(
        f"@proc\ndef k{d}(n: size, i: index, x: f32[n + 4] @ DRAM):\n"
        + f"    k{d - 1 if d else ''}(n, i, x)\n" * 2
        for d in range(length)
    )


def _huge(rng: Random) -> Case:
    n = rng.choice((300, 3000))
    name = "v" * rng.choice((100, 10_000))
    forms = (
        HEAD + "    x[0] = 1.0\n" * n,
        HEAD + "    for _ in range(10 ** 9):\n        x[0] = 1.0\n",
        HEAD + "    for a in range(600):\n        for b in range(600):\n            x[0] = 1.0\n",
        HEAD + "    while_ = 3\n" + "# " + "comment " * n * 10 + "\n",
        HEAD + f"    {name}: f32 @ DRAM\n    {name} = 1.0\n",
        HEAD + f"    x[{10**30}] = 1.0\n",
        HEAD + f"    x[0] = {'9' * 5000}\n",
        HEAD + f"    x[0] = 1e{n}\n",
        HEAD + f"    for k in seq(0, {2**62}):\n        x[0] = 1.0\n",
        HEAD + "".join(f"    y{d}: f32[n] @ DRAM\n" for d in range(n)),
        "from exogpu import *\n@proc\ndef k("
        + ", ".join(f"n{d}: size" for d in range(n))
        + "): pass\n",
        "from exogpu import *\n" + "@proc\ndef k(n: size): pass\n" * (n // 10),
        "x = [" + "1, " * 100 * n + "]\n" + HEAD + "    x[0] = 1.0\n",
        HEAD + "    x[0] = " + ", ".join(["x[0]"] * n) + "\n",
        HEAD + "    y: f32[" + ", ".join(["1"] * (n // 10)) + "] @ DRAM\n",
    )
    return on_file(rng, "huge", rng.choice(forms).encode(), ("n", "i"))


# --- programs of nonsense -----------------------------------------------------------------------

_NAME_TEXT: Final = """
x n i k t z floor mod exists and_ int float self e größe Ω x' __x _ class size f32 cuda_thread
threadIdx asm
"""
_NAMES: Final = tuple(_NAME_TEXT.split())
_VALUE_TEXT: Final = """
0|1|-1|n|i|n * n|n / 0|n % 2|x[0]|2 ** 63|1.5|'a'|None|True|x|i * 3 - 5|n / 2|(1, 2)|[]|lambda: 0|
nan|~0|1 / 0|exit(0)|float('nan')|float('inf')|10 ** 400|...|x[n]|x[-1]|x[0:n]|z[0]|min(1)
"""
_VALUES: Final = tuple(_VALUE_TEXT.replace("\n", "").split("|"))
_STATEMENTS: Final = (
    "{a}: f32[{v}] @ CudaSmemLinear",
    "{a}: {t}[{v}, {w}] @ DRAM",
    "{a}: barrier[{v}] @ CudaMbarrier",
    "{a}: {t} @ {v}",
    "{a} = {v}",
    "{a}[{v}] = {w}",
    "{a}[{v}] += {w}",
    "{a} = x[{v}:{w}]",
    "{a}({v}, {w})",
    "Fence({v}, cuda_in_order)",
    "Fence(cuda_in_order, cuda_in_order)",
    "Arrive(cuda_in_order) >> {a}[{v}]",
    "Await({a}[{v}], cuda_in_order, {w})",
    "pass",
    "return {v}",
    "del {a}",
    "import os",
    "assert {v} < {w}",
)
_BLOCKS: Final = (
    "for {a} in seq({v}, {w}):",
    "for {a} in cuda_tasks(0, {v}):",
    "for {a} in cuda_threads(0, {v}, unit={w}):",
    "for {a} in cuda_threads(0, 32, unit=cuda_thread):",
    "for {a} in {v}:",
    "if {v} < {w}:",
    "if {v}:",
    "with CudaDeviceFunction(blockDim={v}):",
    "with CudaDeviceFunction(blockDim=64):",
    "with CudaWarps({v}, {w}):",
    "while {v}:",
    "try:",
    "def {a}({b}):",
)


def _nonsense(rng: Random) -> Case:
    def fill(form: str) -> str:
        kind = rng.choice(("f32", "i8", "ui64", "bf16", "size", "index", "int"))
        a, b = rng.choice(_NAMES), rng.choice(_NAMES)
        return form.format(a=a, b=b, v=rng.choice(_VALUES), w=rng.choice(_VALUES), t=kind)

    def block(depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(rng.randrange(1, 4)):
            if depth < 5 and rng.random() < 0.4:
                lines += ["    " * depth + fill(rng.choice(_BLOCKS)), *block(depth + 1)]
            else:
                lines.append("    " * depth + fill(rng.choice(_STATEMENTS)))
        return lines

    name = rng.choice(("k", "k", *_NAMES))
    options = rng.choice(("", "", "()", "(name='k')", "(name='../k')", "(name=3)", "(3)"))
    extra = rng.choice(("", fill(", {a}: {t}"), fill(", {a}: f32[{v}] @ {w}"), fill(", {a}={v}")))
    lines = ["from exogpu import *", f"@proc{options}"]
    lines += [f"def {name}(n: size, i: index, x: f32[n] @ CudaGmemLinear{extra}):", *block(1)]
    return on_file(rng, "nonsense", "\n".join(lines).encode() + b"\n", ("n", "i"))


FILES: Final[Mapping[str, Callable[[Random], Case]]] = {
    "garbage": _garbage,
    "cut off": _cut,
    "bits flipped": _flipped,
    "lines moved": _shuffled,
    "deep": _deep,
    "huge": _huge,
    "nonsense": _nonsense,
}
"""Makers of files, by the kind of what they make."""
