"""Hostile calls of the command line: options, targets, outputs, certificates, and all inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from hostile_files import FILES, GOOD, VERDICTS, WRONG, Case, call

from exogpu.cli.loader import load
from exogpu.symbolic.certificate.write import write_certificate

# --- calls of nonsense --------------------------------------------------------------------------

_COMMANDS: Final = """
check compile report recheck why run threads amir history explain doctor
"""
_FLAGS: Final = """
--at --policy --timeout --json --sarif --junit --redundant -o --arch --unchecked --random --seed
--relations --solver --all --task-order --nothing - -- -x --help --memory --at= --policy=
"""
_WILD_TEXT: Final = """
0 -1 nan inf 1e400 M M= M=4=4 M=4,M=5 M=x n=1 strict paper STRICT sm_90a sm_1 z3 hilbert grouped:0
grouped:x good.py good.py::good good.py:: ::good good.py::x::y good.py:3 . .. nothing.py good os sys
this exogpu.nothing exogpu.hw größe /dev/null /dev/zero /proc/self/mem good.py/x ~ * B601 b601
"""
_WILD: Final = (*_WILD_TEXT.split(), "", "M=" + "9" * 40, "a" * 5000, "\udcff")


def _options(rng: Random) -> Case:
    """Any words after a command: whatever it says, it is a wrong call or an answer."""
    words = [rng.choice((*_FLAGS.split(), *_WILD, *_WILD)) for _ in range(rng.randrange(6))]
    arguments = (rng.choice((*_COMMANDS.split(), "nothing", "")), *words)
    if rng.random() < 0.5:
        arguments = (arguments[0], "good.py", *words)
    return Case("options", arguments, {"good.py": GOOD})


def _targets(rng: Random) -> Case:
    """Odd kinds of files, alone and in a folder with a good one."""
    kind, name = rng.choice(
        (
            *(("fifo", "t.py"), ("socket", "t.py"), ("t.py", "t.py"), ("nothing.py", "t.py")),
            *(("/dev/zero", "t.py"), ("/dev/full", "t.py"), ("/proc/self/mem", "t.py")),
            *(("folder", "t.py"), ("..", "up"), (".", "self"), ("sub", "other")),
        )
    )
    whole = rng.random() < 0.6
    arguments = call(rng, "sub" if whole else f"sub/{name}", ("M",))
    harmless = kind in ("folder", "..", ".", "sub")
    return Case(
        "odd files",
        arguments,
        {"sub/good.py": GOOD},
        ((kind, f"sub/{name}"),),
        VERDICTS if harmless else WRONG,
    )


# --- files that do things -----------------------------------------------------------------------

_DEEDS: Final[Mapping[str, frozenset[int]]] = {
    "raise SystemExit(0)": WRONG,
    "import sys; sys.exit('bye')": WRONG,
    "raise KeyboardInterrupt": frozenset({130}),
    "raise GeneratorExit": WRONG,
    "class E(BaseException):\n    def __str__(self): raise E\nraise E": WRONG,
    "raise MemoryError": WRONG,
    "def f(): f()\nf()": WRONG,
    "1 / 0": WRONG,
    "import nothing_of_this_name": WRONG,
    "import typer; raise typer.Exit(0)": WRONG,
    "import os; os.chdir('/')": VERDICTS,
    "import os; os.environ.clear()": VERDICTS,
    "import sys; sys.stdout.close()": VERDICTS,
    "import sys; sys.stderr = sys.stdout = None": VERDICTS,
    "import sys; sys.path.clear()": VERDICTS,
    "import sys; sys.setrecursionlimit(200)": VERDICTS,
    "import warnings; warnings.simplefilter('error')": VERDICTS,
    "print('x' * 100000)": VERDICTS,
    "good = 3": VERDICTS,
    "del proc": VERDICTS,
    "proc(3)": WRONG,
    "proc(print)": WRONG,
    "exec('@proc\\ndef g(n: size): pass')": WRONG,
    "class C:\n    @proc\n    def m(self, n: size): pass": WRONG,
    "class O:\n    __class__ = property(lambda s: 1 / 0)\no = O()": VERDICTS,
    "import threading; threading.Thread(target=print).start()": VERDICTS,
    "import atexit; atexit.register(lambda: 1 / 0)": VERDICTS,
}


def _deeds(rng: Random) -> Case:
    deed, allowed = rng.choice(list(_DEEDS.items()))
    text = GOOD + deed.encode() + b"\n"
    return Case("deeds", call(rng, "k.py", ("M",)), {"k.py": text}, allowed=allowed)


def _outputs(rng: Random) -> Case:
    """Places where nothing can be written, and readers that are gone."""
    streams = rng.choice(("full", "closed", "pipe", ""))
    command = rng.choice(
        (
            ("check", "good.py"),
            ("check", "good.py", "--json"),
            ("check", "good.py", "--sarif", rng.choice(_UNWRITABLE)),
            ("check", "good.py", "--junit", rng.choice(_UNWRITABLE)),
            ("compile", "good.py", "-o", rng.choice(_UNWRITABLE)),
            ("report", "good.py", "-o", rng.choice(_UNWRITABLE)),
            ("explain",),
            ("explain", "B601"),
            ("--help",),
            ("amir", "good.py", "--json"),
        )
    )
    unwritable = bool({*command} & {*_UNWRITABLE})
    allowed = {"full": WRONG, "pipe": frozenset({141})}.get(streams, frozenset({0}))
    if unwritable:
        allowed = WRONG | (allowed - {0})
    return Case("outputs", command, {"good.py": GOOD}, (), allowed, streams)


_UNWRITABLE: Final = ("good.py/x", "/dev/full", "/proc/x", "a" * 300)


@cache
def _certificate() -> Mapping[str, bytes]:
    """A certificate that is confirmed as it stands, by file."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "good.py").write_bytes(GOOD)
        (unit,) = load(str(folder / "good.py"))
        assert unit.procedure is not None
        write_certificate(folder / "c", unit.procedure, unit.procedure.check())
        files = [path for path in folder.rglob("*") if path.is_file()]
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def _certificates(rng: Random) -> Case:
    """One file of a certificate is another: whatever it says, it is not confirmed."""
    files = dict(_certificate())
    name = rng.choice(sorted(set(files) - {"good.py"}))
    text = bytearray(files[name])
    at = rng.randrange(len(text))
    match rng.randrange(6):
        case 0:
            text[at] ^= 1 << rng.randrange(8)
        case 1:
            del text[at:]
        case 2:
            text[at:at] = rng.choice((b"(", b")", b"0", b"(exit)", b"\0", b"[" * 9999, b"{}", b'"'))
        case 3:
            text = bytearray(rng.randbytes(at))
        case 4:
            text = bytearray(b"[" * 50_000 if name.endswith("json") else b"(" * 300_000)
        case _:
            text = bytearray(files[rng.choice(sorted(files))])
    if bytes(text) == files[name]:
        text = bytearray()
    files[name] = bytes(text)
    arguments = (
        "recheck",
        rng.choice(("c", ".")),
        *rng.choice(((), ("--json",), ("--solver", "z3"))),
    )
    return Case("certificates", arguments, files, allowed=frozenset({1, 2, 3}))


MAKERS: Final[Mapping[str, Callable[[Random], Case]]] = {
    **FILES,
    "options": _options,
    "odd files": _targets,
    "deeds": _deeds,
    "outputs": _outputs,
    "certificates": _certificates,
}
"""Makers of inputs, by the kind of what they make."""


def case(seed: int, number: int) -> Case:
    """The input of a number: equal seeds and numbers give equal inputs."""
    rng = Random(f"{seed}/{number}")
    makers = tuple(MAKERS)
    return MAKERS[makers[number % len(makers)]](rng)
