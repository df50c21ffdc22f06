"""From a target of the command line to procedures: files, folders, modules and packages.

Whatever is wrong with a target is a diagnostic, never an exception of Python.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import importlib.util
import linecache
import os
import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import CodeType, ModuleType

from exogpu.api import Procedure, collecting
from exogpu.errors import NOWHERE, Diagnostic, ExoGpuError, Span

_ANNOTATIONS = __future__.annotations.compiler_flag
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


@dataclass(frozen=True, slots=True)
class Unit:
    """A procedure of the target; or, where `procedure` is None, what kept one from being loaded."""

    name: str
    span: Span
    procedure: Procedure | None
    diagnostics: tuple[Diagnostic, ...]


def load(target: str) -> tuple[Unit, ...]:
    """The procedures of `TARGET[::PROC]` in the order of their files and lines.

    What a file prints while it is loaded goes to standard error.
    """
    path, _, wanted = target.partition("::")
    older = frozenset(sys.modules)
    try:
        files = tuple(_files(path))
        with contextlib.redirect_stdout(sys.stderr), collecting() as found:
            units = tuple(unit for file in files for unit in _load_file(file, older, found))
        units = units or (_no_procedure(path),)
        return _select(units, wanted, path) if wanted else units
    except ExoGpuError as error:
        return tuple(_failure(path, diagnostic) for diagnostic in error.diagnostics)


def _failure(file: str, diagnostic: Diagnostic) -> Unit:
    span = diagnostic.span if diagnostic.span.line else Span(file, 0, 0, 0, 0)
    return Unit("", span, None, (diagnostic,))


def _bad(code: str, message: str, help: str, span: Span = NOWHERE) -> ExoGpuError:
    return ExoGpuError([Diagnostic(code, message, span, help)])


# --- from the target to files -------------------------------------------------------------


def _files(target: str) -> Iterator[Path]:
    """The files of a target.  Raises ExoGpuError where there is none."""
    path = Path(target)
    if not target:
        raise _bad("X941", "the target is empty", "give a .py file, a folder, or a dotted module")
    if path.is_dir():
        yield from _folder(path)
    elif path.exists():
        if path.suffix != ".py":
            raise _bad(
                "X942",
                f"{target} is no Python file: its name does not end in .py",
                "give a .py file, a folder, or a dotted module",
            )
        yield path
    elif _DOTTED.fullmatch(target) and not target.endswith(".py"):
        yield from _module_files(target)
    else:
        raise _bad("X941", f"there is no file or folder {target}", _nearest(path))


def _nearest(path: Path) -> str:
    names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    close = get_close_matches(path.name, names, n=1)
    return f"did you mean {path.parent / close[0]}?" if close else "check the path"


def _folder(path: Path) -> Iterator[Path]:
    """The Python files below a folder that import exogpu or decorate a procedure.

    Others are not executed, and nothing below a hidden folder or a virtual environment is.
    """
    found = False
    for root, folders, names in os.walk(path):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith((".", "__")) and not Path(root, name, "pyvenv.cfg").exists()
        )
        for name in sorted(names):
            file = Path(root, name)
            if name.endswith(".py") and _speaks_of_procedures(file):
                found = True
                yield file
    if not found:
        raise _no_procedures_in(str(path))


def _speaks_of_procedures(file: Path) -> bool:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return b"@proc" in file.read_bytes()
    except OSError:
        return True
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] == "exogpu":
                return True
            case ast.Import(names=names) if any(n.name.split(".")[0] == "exogpu" for n in names):
                return True
            case ast.FunctionDef(decorator_list=decorators) if any(
                isinstance(d, ast.Name) and d.id == "proc" for d in decorators
            ):
                return True
            case _:
                pass
    return False


def _module_files(name: str) -> Iterator[Path]:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    remedy = "give a .py file, a folder, or a module that this Python can import"
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        raise _bad("X941", f"there is no module {name}: {error}", remedy) from None
    except Exception as error:  # a parent package is the user's code: it may raise anything
        message = f"a package around {name} cannot be imported: {_in_words(error)}"
        raise _bad("X944", message, "repair the package") from None
    if spec is None:
        raise _bad("X941", f"there is no file, folder or module {name}", remedy)
    if spec.submodule_search_locations is not None:
        for location in spec.submodule_search_locations:
            if Path(location).is_dir():
                yield from _folder(Path(location))
    elif spec.origin is not None and spec.origin.endswith(".py"):
        yield Path(spec.origin)
    else:
        raise _bad("X942", f"the module {name} has no Python source", remedy)


# --- from a file to procedures ------------------------------------------------------------


def _load_file(path: Path, older: frozenset[str], found: list[Procedure]) -> Iterator[Unit]:
    """The units of one file.  `found` has the procedures of all files loaded so far, because one
    of those may have imported this one; modules in `older` are not reused."""
    file = str(path.absolute())
    failures: tuple[Diagnostic, ...] = ()
    try:
        module: ModuleType | None = _execute(path, file, older)
    except ExoGpuError as error:
        module, failures = None, error.diagnostics
    here = [p for p in found if _place(p).file == file]
    if module is not None:
        bound = [p for p in vars(module).values() if isinstance(p, Procedure)]
        here += [p for p in bound if p not in here and not _imported(p, module)]
    for procedure in sorted(here, key=lambda p: _place(p).line):
        yield Unit(procedure.name, _place(procedure), procedure, ())
    known = {d for procedure in here if procedure.ir is None for d in procedure.diagnostics}
    for diagnostic in failures:
        if diagnostic not in known:
            yield _failure(file, diagnostic)


def _place(procedure: Procedure) -> Span:
    if procedure.ir is not None:
        return procedure.ir.span
    return procedure.diagnostics[0].span if procedure.diagnostics else NOWHERE


def _imported(procedure: Procedure, here: ModuleType) -> bool:
    """Whether another module binds the procedure too: then it was imported, not made, here."""
    file = _place(procedure).file
    return any(
        module is not here
        and isinstance(module, ModuleType)
        and module.__dict__.get("__file__") == file
        and any(value is procedure for value in vars(module).values())
        for module in tuple(sys.modules.values())
    )


def _execute(path: Path, file: str, older: frozenset[str]) -> ModuleType:
    """Runs a file as the module it would be imported as.  Raises ExoGpuError."""
    code = _compile(path, file)
    root, name = _module_name(path.absolute())
    known = sys.modules.get(name)
    if known is not None:
        if name not in older and known.__dict__.get("__file__") == file:
            return known
        package, dot, last = name.rpartition(".")
        name = f"{package}{dot}exogpu_target_{last}"  # in its package still: it may import by dots
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    linecache.checkcache(file)
    sys.path.insert(0, str(root))
    try:
        exec(code, module.__dict__)  # running the user's own file is the point
    except ExoGpuError:
        raise
    except (Exception, SystemExit) as error:
        raise _raised(error, path, file) from None
    finally:
        sys.path.remove(str(root))
    return module


def _compile(path: Path, file: str) -> CodeType:
    try:
        # Annotations are the language's, not Python's: never evaluated, whatever the file says.
        text = path.read_bytes()
        code: CodeType = compile(text, file, "exec", _ANNOTATIONS, dont_inherit=True)
        return code
    except OSError as error:
        raise _bad("X941", f"{path} cannot be read: {error.strerror}", "check the file") from None
    except SyntaxError as error:
        raise _syntax(error, file) from None
    except ValueError as error:  # a NUL byte
        raise _bad("X942", f"{path} is no Python file: {error}", "give a Python file") from None


def _syntax(error: SyntaxError, file: str) -> ExoGpuError:
    line, column = error.lineno or 1, max(error.offset or 1, 1)
    end_line, end = error.end_lineno or line, error.end_offset or 0
    if end_line != line or end <= column:
        end_line, end = line, column + 1
    text = (error.text or "").rstrip("\r\n")
    place = Span(error.filename or file, line, column, end_line, end, text)
    return _bad("X942", f"this is no Python: {error.msg}", "repair the syntax", place)


def _raised(error: BaseException, path: Path, file: str) -> ExoGpuError:
    """What the file raised, at the innermost of its own lines."""
    if isinstance(error, SyntaxError):
        return _syntax(error, file)
    message = f"loading {path} stopped: {_in_words(error)}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    if not lines or lines[-1] is None:
        return _bad("X944", message, "repair the file so that it can be imported")
    text = linecache.getline(file, lines[-1]).rstrip("\n")
    start = len(text) - len(text.lstrip()) + 1
    place = Span(file, lines[-1], start, lines[-1], len(text) + 1, text)
    return _bad("X944", message, "repair the line so that the file can be imported", place)


def _in_words(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _module_name(path: Path) -> tuple[Path, str]:
    """The folder to import from, and the dotted name that the file has from there."""
    parts = [] if path.name == "__init__.py" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts) or path.stem


# --- choosing among procedures ------------------------------------------------------------


def _no_procedures_in(target: str) -> ExoGpuError:
    return _bad(
        "X943",
        f"{target} has no procedure",
        "decorate one with @proc (from exogpu import proc)",
    )


def _no_procedure(target: str) -> Unit:
    return _failure(target, _no_procedures_in(target).diagnostics[0])


def _select(units: tuple[Unit, ...], wanted: str, path: str) -> tuple[Unit, ...]:
    """The units of one name; where there is none, what kept it from being found."""
    named = tuple(unit for unit in units if unit.name == wanted)
    broken = tuple(unit for unit in units if unit.procedure is None)
    if named or broken:
        return named or broken
    names = sorted({unit.name for unit in units})
    close = get_close_matches(wanted, names, n=1)
    remedy = f"did you mean {close[0]}?" if close else f"it has {', '.join(names)}"
    raise _bad("X945", f"{path} has no procedure {wanted}", remedy)
