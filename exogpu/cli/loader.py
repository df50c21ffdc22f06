"""From a target of the command line to procedures: files, folders, modules and packages.

Whatever is wrong with a target is a diagnostic, never an exception of Python.
"""

from __future__ import annotations
import __future__

import ast
import importlib.util
import linecache
import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from difflib import get_close_matches
from pathlib import Path
from types import CodeType, ModuleType
from typing import TextIO, cast

from exogpu.api import Procedure, collecting
from exogpu.cli import files
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError, InternalError, Span
from exogpu.frontend.source import span_of
from exogpu.report.render_verdict import shown_path
from exogpu.solvers.processes import stage

_ANNOTATIONS = __future__.annotations.compiler_flag


def load(
    target: str, skip: Collection[str] = (), *, derive: bool = False
) -> tuple[files.Unit, ...]:
    """The procedures of `TARGET[::PROC]` in the order of their files and lines.

    What a file prints while it is loaded goes to standard error.  Files in `skip` are left out;
    then there may be no procedure.  With `derive`, the kernels that files derive on first use are
    made, too.
    """
    path, _, wanted = target.partition("::")
    if path.endswith(".ttgir"):
        from exogpu.cli.import_targets import Launch, units_of

        return tuple(units_of(path, Launch()))
    try:
        units = _load_units(
            lambda: (f for f in files.files(path) if str(f) not in skip), path, derive
        )
        if skip and not any(unit.name == (wanted or unit.name) for unit in units):
            return ()
        units = units or (_no_procedure(path),)
        return _select(units, wanted, path) if wanted else units
    except ExoGpuError as error:
        return tuple(_failure(path, diagnostic) for diagnostic in error.diagnostics)


def load_file(path: Path) -> tuple[files.Unit, ...]:
    """The procedures of one file, which need not be on the disk (`exogpu.cli.files.BUFFERS`)."""
    try:
        return _load_units(lambda: (path,), str(path), derive=False)
    except ExoGpuError as error:
        return tuple(_failure(str(path), diagnostic) for diagnostic in error.diagnostics)


def _load_units(
    named: Callable[[], Iterable[Path | Diagnostic]], target: str, derive: bool
) -> tuple[files.Unit, ...]:
    older = frozenset(sys.modules)
    kept = cast(TextIO, _KeptOpen(sys.stderr))
    with redirect_stdout(kept), redirect_stderr(kept), collecting() as found:
        paths = tuple(named())
        return tuple(unit for file in paths for unit in _units(file, target, older, found, derive))


def load_modules(target: str) -> tuple[ModuleType, ...]:
    """The modules of a target without `::`, executed as `load` does.  Raises ExoGpuError."""
    older = frozenset(sys.modules)
    kept = cast(TextIO, _KeptOpen(sys.stderr))
    with redirect_stdout(kept), redirect_stderr(kept), collecting():
        found = tuple(files.files(target))
        if wrong := [file for file in found if isinstance(file, Diagnostic)]:
            raise ExoGpuError(wrong)
        paths = [_absolute(file) for file in found if isinstance(file, Path)]
        return tuple(_execute(path, str(path), older) for path in paths)


class _KeptOpen:
    """A stream that a target may write to and cannot close."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def close(self) -> None:
        """Nothing: the stream is this program's."""


def _failure(file: str, diagnostic: Diagnostic) -> files.Unit:
    span = diagnostic.span if diagnostic.span.line else Span(file, 0, 0, 0, 0)
    return files.Unit("", span, None, (diagnostic,))


def _units(
    file: Path | Diagnostic,
    target: str,
    older: frozenset[str],
    found: list[Procedure],
    derive: bool,
) -> Iterator[files.Unit]:
    """Yields the units of a file, or of the diagnostic that kept one from being found."""
    if isinstance(file, Diagnostic):
        yield _failure(target, file)
    else:
        yield from _load_file(file, older, found, derive)


# --- from a file to procedures ------------------------------------------------------------


def _load_file(
    path: Path, older: frozenset[str], found: list[Procedure], derive: bool
) -> Iterator[files.Unit]:
    """The units of one file.  `found` has the procedures of all files loaded so far, because one
    of those may have imported this one; modules in `older` are not reused."""
    stage(f"{files.LOADING}{path}")  # as `load` has it in `skip`
    path = _absolute(path)
    file = str(path)
    failures: tuple[Diagnostic, ...] = ()
    try:
        module: ModuleType | None = _execute(path, file, older)
    except ExoGpuError as error:
        module, failures = None, error.diagnostics
    here = [p for p in found if p.made_in == file]
    if module is not None:
        bound = [p for p in vars(module).values() if issubclass(type(p), Procedure)]
        here += [p for p in bound if p not in here and not _imported(p, module)]
        if derive:
            made, failures = _derive_kernels(module, path, file)
            here += made
        here = _named_apart(here, module)
    for procedure in sorted(here, key=lambda p: _place(p).line):
        yield files.Unit(procedure.name, _place(procedure), procedure, ())
    known = {d for procedure in here if procedure.ir is None for d in procedure.diagnostics}
    for diagnostic in failures:
        if diagnostic not in known:
            yield _failure(file, diagnostic)


def _named_apart(procedures: list[Procedure], module: ModuleType) -> list[Procedure]:
    """Gives procedures that share a name, as those of a factory, the names of their variables."""
    shared = {name for name, n in Counter(p.name for p in procedures).items() if n > 1}
    variables = {id(value): name for name, value in vars(module).items()}
    taken = {p.name for p in procedures}
    named = []
    for procedure in procedures:
        variable = variables.get(id(procedure), procedure.name)
        apart = type(procedure) is Procedure and procedure.name in shared and variable not in taken
        named.append(procedure.renamed(variable) if apart else procedure)
    return named


def _derive_kernels(
    module: ModuleType, path: Path, file: str
) -> tuple[list[Procedure], tuple[Diagnostic, ...]]:
    """The kernels that the functions of a module derive on first use, and what is wrong."""
    from exogpu.schedule.higher_steps import kernel_maker

    made: list[Procedure] = []
    try:
        for value in tuple(vars(module).values()):
            make = (
                kernel_maker(value) if getattr(value, "__module__", "") == module.__name__ else None
            )
            if make is not None and isinstance(kernel := make(), Procedure):
                made.append(kernel)
    except ExoGpuError as error:
        return made, error.diagnostics
    except (InternalError, KeyboardInterrupt):
        raise
    except BaseException as error:  # it is the user's code
        return made, _error_of_file(error, path, file).diagnostics
    return made, ()


def _absolute(path: Path) -> Path:
    """Without `..`, which would be taken for the name of a package."""
    return path.resolve() if os.pardir in path.parts else path.absolute()


def _place(procedure: Procedure) -> Span:
    if procedure.ir is not None:
        return procedure.ir.span
    return procedure.diagnostics[0].span if procedure.diagnostics else NOWHERE


def _imported(procedure: Procedure, here: ModuleType) -> bool:
    """Tests whether another module binds the procedure too: then it was imported, not made,
    here."""
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
    root, name = _module_name(path)
    known = sys.modules.get(name)
    if known is not None:
        if name not in older and getattr(known, "__file__", None) == file:
            return known
        package, dot, last = name.rpartition(".")
        name = f"{package}{dot}exogpu_target_{last}"  # in its package still: it may import by dots
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    linecache.checkcache(file)
    sys.path.insert(0, str(root))
    where = os.getcwd()
    try:
        exec(code, module.__dict__)  # running the user's own file is the point
    except (ExoGpuError, InternalError, KeyboardInterrupt):
        raise
    except BaseException as error:  # it may raise anything, SystemExit too
        raise _error_of_file(error, path, file) from None
    finally:
        os.chdir(where)
        with suppress(ValueError):
            sys.path.remove(str(root))
    return module


def _compile(path: Path, file: str) -> CodeType:
    text = files.read_source(path)
    files.check_encoding(path, text)
    try:
        # Annotations are the language's, not Python's: never evaluated, whatever the file says.
        code: CodeType = compile(text, file, "exec", _ANNOTATIONS, dont_inherit=True)
        return code
    except SyntaxError as error:
        raise _syntax(error, file) from None
    except (RecursionError, MemoryError):
        message = f"{path}: an expression or block is nested deeper than Python reads"
        raise files.bad("X942", message, "split it: write a loop, or several statements") from None
    except files.UNPARSED as error:  # a NUL byte
        raise files.bad(
            "X942", f"{path} is no Python file: {error}", "give a Python file"
        ) from None


def _syntax(error: SyntaxError, file: str) -> ExoGpuError:
    line, column = error.lineno or 1, max(error.offset or 1, 1)
    end_line, end = error.end_lineno or line, error.end_offset or 0
    if end_line != line or end <= column:
        end_line, end = line, column + 1
    text = (error.text or "").rstrip("\r\n")
    place = Span(error.filename or file, line, column, end_line, end, text)
    return files.bad("X942", f"this is no Python: {error.msg}", "repair the syntax", place)


def _error_of_file(error: BaseException, path: Path, file: str) -> ExoGpuError:
    """Makes the error that the file raised, at the innermost of its own lines."""
    if isinstance(error, SyntaxError):
        return _syntax(error, file)
    message = f"loading {path} stopped: {files.in_words(error)}"
    if (evaluated := _evaluated_annotation(error, file)) is not None:
        raise_at, name = evaluated
        message = f"loading {path} stopped: Python evaluates annotations of {name}"
        remedy = f"write `from __future__ import annotations` as the first statement of {name}"
        return files.bad("X944", f"{message}: {error}", remedy, raise_at)
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    if not lines or lines[-1] is None:
        return files.bad("X944", message, "repair the file so that it can be imported")
    text = linecache.getline(file, lines[-1]).rstrip("\n")
    start = len(text) - len(text.lstrip()) + 1
    place = Span(file, lines[-1], start, lines[-1], len(text) + 1, text)
    return files.bad("X944", message, "repair the line so that the file can be imported", place)


def _evaluated_annotation(error: BaseException, file: str) -> tuple[Span, str] | None:
    """Finds the annotation that Python itself evaluated in a module the file imports: Python knows
    no `size` and no sizes. None if there is none."""
    if not isinstance(error, NameError):
        return None
    at = traceback.extract_tb(error.__traceback__)[-1]
    if at.filename == file or at.lineno is None:
        return None
    with suppress(OSError, *files.UNPARSED):
        text = "".join(linecache.getlines(at.filename))
        tree = ast.parse(text)
        told = any(isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in tree.body)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and not told:
                annotations = [a.annotation for a in node.args.args if a.annotation is not None]
                names = [n for one in annotations for n in ast.walk(one) if isinstance(n, ast.Name)]
                for name in names:
                    if name.id == error.name and node.lineno <= at.lineno <= name.lineno:
                        lines = tuple(text.splitlines())
                        return span_of(name, at.filename, lines), shown_path(at.filename)
    return None


def _module_name(path: Path) -> tuple[Path, str]:
    """The folder to import from, and the dotted name that the file has from there."""
    parts = [] if path.name == "__init__.py" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts) or path.stem


# --- choosing among procedures ------------------------------------------------------------


def _no_procedure(target: str) -> files.Unit:
    return _failure(target, files.no_procedures_in(target).diagnostics[0])


def _select(units: tuple[files.Unit, ...], wanted: str, path: str) -> tuple[files.Unit, ...]:
    """The units of one name; where there is none, what kept it from being found."""
    named = tuple(unit for unit in units if unit.name == wanted)
    broken = tuple(unit for unit in units if unit.procedure is None)
    if named or broken:
        return named or broken
    names = sorted({unit.name for unit in units})
    close = get_close_matches(wanted, names, n=1)
    remedy = f"did you mean {close[0]}?" if close else f"it has {', '.join(names)}"
    raise files.bad("X945", f"{path} has no procedure that is called {wanted}", remedy)
