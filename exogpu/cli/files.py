"""Finds the files that a target of the command line names, and their text.

Of a folder, no file that may hold a procedure is passed over in silence: what cannot be read, or
is no Python, is reported.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import os
import re
import stat
import sys
import tokenize
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError, Span

if TYPE_CHECKING:
    from exogpu.api import Procedure


LARGEST: Final = 4 * 2**20
"""Bytes that a source file may have."""

UNPARSED: Final = (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError, SystemError)
"""The exceptions of Python's parser and compiler for text that they do not take."""

BUFFERS: Final[dict[str, bytes]] = {}
"""The unsaved texts of files in an editor, by absolute path."""

_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_LOOPS: Final = frozenset({"seq", "cuda_tasks", "cuda_threads"})
_BLOCKS: Final = frozenset({"CudaDeviceFunction", "CudaWarps"})


LOADING: Final = "loading "
"""The stage of a check that loads a file; the name of the file follows."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A procedure of the target; or, where `procedure` is None, what kept one from being loaded."""

    name: str
    span: Span
    procedure: Procedure | None
    diagnostics: tuple[Diagnostic, ...]


def files(target: str) -> Iterator[Path | Diagnostic]:
    """The files of a target, and what kept others from being found.

    Raises ExoGpuError where there is none.
    """
    path = Path(target)
    if not target:
        raise bad("X941", "the target is empty", "give a .py file, a folder, or a dotted module")
    if os.path.isdir(path):
        yield from _folder(path)
    elif os.path.lexists(path):
        if path.suffix != ".py":
            raise bad(
                "X942",
                f"{target} is no Python file: its name does not end in .py",
                "give a .py file, a folder, or a dotted module",
            )
        yield path
    elif _DOTTED.fullmatch(target) and not target.endswith(".py"):
        yield from _module_files(target)
    else:
        raise bad("X941", f"there is no file or folder {target}", _nearest(path))


def bad(code: str, message: str, help: str, span: Span = NOWHERE) -> ExoGpuError:
    """One thing that is wrong with a target."""
    return ExoGpuError([Diagnostic(code, message, span, help)])


def in_words(error: BaseException) -> str:
    """The kind of an exception and the first line of its message."""
    try:
        lines = str(error).strip().splitlines()
    except BaseException:  # a class of the user's: its text may raise anything
        lines = []
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def read_source(path: Path) -> bytes:
    """The bytes of a source file.  Raises ExoGpuError for what is no file, or far too large."""
    if (buffer := BUFFERS.get(str(path))) is not None:
        return buffer
    try:
        # Opening a pipe that nobody writes to would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as opened:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise bad("X942", f"{path} is no regular file", "give a file of Python source")
            text = opened.read(LARGEST + 1)
    except OSError as error:
        raise bad("X941", f"{path} cannot be read: {error.strerror}", "check the file") from None
    if len(text) > LARGEST:
        message = f"{path} has more than {LARGEST // 2**20} MiB"
        raise bad("X942", message, "give a file of Python source; split it if it is one")
    return text


def check_encoding(path: Path, text: bytes) -> None:
    """Raises ExoGpuError where the bytes are not in the encoding that they declare, or UTF-8."""
    try:
        encoding = "utf-8"
        if b"coding" in b"\n".join(text.split(b"\n", 2)[:2]):
            encoding, _ = tokenize.detect_encoding(io.BytesIO(text).readline)
        text.decode(encoding)
    except UnicodeDecodeError as error:
        line = text[: error.start].count(b"\n") + 1
        message = f"{path} is not in {encoding}: byte 0x{text[error.start]:02x} on line {line}"
        remedy = "save it as UTF-8, or declare its encoding: # -*- coding: latin-1 -*-"
        raise bad("X942", message, remedy, Span(str(path), line, 1, line, 1)) from None
    except SyntaxError as error:  # an unknown encoding
        remedy = "save it as UTF-8, or declare its encoding: # -*- coding: latin-1 -*-"
        raise bad("X942", f"{path} cannot be decoded: {error.msg}", remedy) from None


def _nearest(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        names = []
    close = get_close_matches(path.name, names, n=1)
    return f"did you mean {path.parent / close[0]}?" if close else "check the path"


def _module_files(name: str) -> Iterator[Path | Diagnostic]:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    remedy = "give a .py file, a folder, or a module that this Python can import"
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        raise bad("X941", f"there is no module {name}: {error}", remedy) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a parent package is the user's code: it may raise anything
        message = f"a package around {name} cannot be imported: {in_words(error)}"
        raise bad("X944", message, "repair the package") from None
    if spec is None:
        raise bad("X941", f"there is no file, folder or module {name}", remedy)
    if spec.submodule_search_locations is not None:
        for location in spec.submodule_search_locations:
            if os.path.isdir(location):
                yield from _folder(Path(location))
    elif spec.origin is not None and spec.origin.endswith(".py"):
        yield Path(spec.origin)
    else:
        raise bad("X942", f"the module {name} has no Python source", remedy)


# --- folders ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Glance:
    """Facts about a file of a folder, without running it."""

    loads: bool
    """It may have procedures of its own, or cannot be read."""
    imports: frozenset[str]
    """The parts of the names of the modules that it imports."""


def no_procedures_in(target: str) -> ExoGpuError:
    """Makes the error for a target without a procedure."""
    remedy = "decorate one with @proc (from exogpu import proc)"
    return bad("X943", f"{target} has no procedure", remedy)


def _folder(path: Path) -> Iterator[Path | Diagnostic]:
    """The Python files below a folder that may make procedures, and those that are broken.

    Others are not executed, and nothing below a hidden folder or a virtual environment is.
    """
    found = list(_python_files(path))
    glances = {file: _glance(file) for file in found if isinstance(file, Path)}
    loaded = _with_importers(glances)
    if not loaded and all(isinstance(file, Path) for file in found):
        raise no_procedures_in(str(path))
    yield from (file for file in found if isinstance(file, Diagnostic) or file in loaded)


def _python_files(top: Path) -> Iterator[Path | Diagnostic]:
    """The files named *.py, and the folders that cannot be read; links to folders come last, so
    that each folder is entered once, by its own name where it has one here."""
    entered: set[tuple[int, int]] = set()
    links: list[Path] = [top]
    while links:
        waiting = [links.pop(0)]
        while waiting:
            folder = waiting.pop()
            try:
                status = folder.stat()
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError as error:
                message = f"the folder {folder} cannot be read: {error.strerror}"
                yield Diagnostic("X941", message, NOWHERE, "check the folder")
                continue
            if (status.st_dev, status.st_ino) in entered:
                continue
            entered.add((status.st_dev, status.st_ino))
            inner: list[Path] = []
            for entry in entries:
                if not _is_folder(entry):
                    if entry.name.endswith(".py"):
                        yield Path(entry)
                elif not _passed_over(Path(entry)):
                    (links if entry.is_symlink() else inner).append(Path(entry))
            waiting += reversed(inner)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _passed_over(folder: Path) -> bool:
    return folder.name.startswith((".", "__")) or os.path.exists(folder / "pyvenv.cfg")


def _glance(file: Path) -> _Glance:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are shown where the file is loaded
            text = read_source(file)
            compile(text, str(file), "exec", dont_inherit=True)  # more than parsing finds
            nodes = list(ast.walk(ast.parse(text)))
    except (ExoGpuError, *UNPARSED):
        return _Glance(True, frozenset())
    imports = frozenset(part for node in nodes for part in _imported_by(node))
    makes = any(isinstance(n, ast.FunctionDef) and _is_procedure(n) for n in nodes)
    return _Glance("exogpu" in imports or makes, imports)


def _imported_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            for alias in names:
                yield from alias.name.split(".")
        case ast.ImportFrom(module=module, names=names):
            yield from (module or "").split(".")
            yield from (alias.name for alias in names)
        case _:
            pass


def _is_procedure(node: ast.FunctionDef) -> bool:
    """Tests whether a decorator is called proc, in whatever module, or decorates a definition with
    features of a procedure alone: it may be proc by another name."""
    if any(_last_name(decorator) == "proc" for decorator in node.decorator_list):
        return True
    return bool(node.decorator_list) and any(map(_is_language, ast.walk(node)))


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return _last_name(function)
        case _:
            return ""


def _is_language(node: ast.AST) -> bool:
    match node:
        case ast.arg(annotation=ast.Name(id="size" | "index")):
            return True
        case ast.arg(annotation=ast.BinOp(op=ast.MatMult())):
            return True
        case ast.AnnAssign(annotation=ast.BinOp(op=ast.MatMult())):
            return True
        case ast.For(iter=ast.Call(func=function)):
            return _last_name(function) in _LOOPS
        case ast.withitem(context_expr=ast.Call(func=function)):
            return _last_name(function) in _BLOCKS
        case _:
            return False


def _with_importers(glances: Mapping[Path, _Glance]) -> set[Path]:
    """The files that are loaded for themselves, and those that import one of them, which may make
    procedures by its functions."""
    loaded = {file for file, glance in glances.items() if glance.loads}
    while True:
        names = set(map(_module, loaded))
        more = {f for f, g in glances.items() if f not in loaded and names & g.imports}
        if not more:
            return loaded
        loaded |= more


def _module(file: Path) -> str:
    return file.resolve().parent.name if file.name == "__init__.py" else file.stem
