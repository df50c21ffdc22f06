"""Meanings of names while a procedure is being read."""

from __future__ import annotations

import ast
from collections import ChainMap, Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias, cast

from exogpu.diagnostics.errors import Diagnostic, InternalError, Note, Span, UnfitError
from exogpu.frontend.source import Source, python_value
from exogpu.frontend.suggestions import undefined
from exogpu.ir.nodes import Access, CExpr
from exogpu.ir.types import BarrierMechanism, DataMemory, DataType, SpecialWindow, Sym

# The backstop of reading: a procedure whose IR lost a statement is not a procedure.
#
# It counts. Each statement that is read becomes one statement of the IR with its place, unless a
# compile-time value dissolves it (a dead `if`, an unrolled loop) or leaves it out (a branch not
# taken).


@dataclass(slots=True)
class Reading:
    """The fate of each statement of the source, by node."""

    seen: Counter[ast.stmt] = field(default_factory=Counter)
    """The number of times that each was read: once for each time that its loop is unrolled."""
    dissolved: Counter[ast.stmt] = field(default_factory=Counter)
    """The number of times that a compile-time value decided it, so that only its inside is left."""
    expanded: list[tuple[Source, list[ast.stmt]]] = field(default_factory=list)
    """The statements of macros that were called."""
    left_out: set[ast.stmt] = field(default_factory=set)
    """Branches that are not taken, and bodies of loops over nothing."""


def bodies(reading: Reading) -> Iterator[tuple[Source, list[ast.stmt]]]:
    """The statements of each macro that was called, once however often it was."""
    yield from {nodes[0]: (source, nodes) for source, nodes in reading.expanded if nodes}.values()


def lost(
    nodes: Iterable[ast.stmt], made: Mapping[Span, int], reading: Reading, source: Source
) -> ast.stmt | None:
    """A statement of the source that is missing from the IR, or stands there too often; `made` is
    how often the IR has one of a place."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node in reading.left_out and not reading.seen[node]:
            continue
        expected = reading.seen[node] - reading.dissolved[node]
        if not reading.seen[node] or made.get(source.span(node), 0) != expected:
            return node
        waiting += (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt))
    return None


@dataclass(frozen=True, slots=True)
class Control:
    """A size, an index argument or an iterator."""

    name: Sym


@dataclass(frozen=True, slots=True)
class Formula:
    """A control expression that has a name."""

    value: CExpr


@dataclass(frozen=True, slots=True)
class Extreme:
    """The least or the greatest of two control expressions."""

    name: Literal["min", "max"]
    left: CExpr
    right: CExpr


@dataclass(frozen=True, slots=True)
class Data:
    """A data variable or window: `shape` has one extent a dimension of the name."""

    name: Sym
    dtype: DataType
    shape: tuple[CExpr, ...]
    memory: DataMemory
    window: SpecialWindow | None
    span: Span


@dataclass(frozen=True, slots=True)
class Barrier:
    name: Sym
    shape: tuple[CExpr, ...]
    mechanism: BarrierMechanism
    span: Span


@dataclass(frozen=True, slots=True)
class Part:
    """Elements of a barrier, a box of a tensor map or an element of data that has a name, used as a
    whole."""

    access: Access
    of: Data | Barrier


@dataclass(frozen=True, slots=True)
class Constant:
    """A Python value that an unrolled loop or a compile-time parameter binds."""

    value: object


@dataclass(frozen=True, slots=True)
class Broken:
    """A name whose declaration was refused: its uses are not reported again."""


Meaning: TypeAlias = Control | Formula | Data | Barrier | Part | Constant | Broken


class Reject(Exception):
    """Gives up the current statement; without a diagnostic, because of an earlier one of the same
    procedure."""

    def __init__(self, diagnostic: Diagnostic | None) -> None:
        super().__init__()
        self.diagnostic = diagnostic


@dataclass(slots=True)
class Context:
    """The state of reading one procedure."""

    source: Source
    diagnostics: list[Diagnostic] = field(default_factory=list)
    cuda: bool = False
    """The statement stands in a CudaDeviceFunction."""
    in_task: bool = False
    """The statement stands inside the innermost cuda_tasks loop."""
    resident: bool = False
    """The statement stands in a CudaDeviceFunction, outside of its cuda_tasks loops."""
    dependent: bool = False
    """The statement stands in a dependent launch, whose threads may wait for the launches
    before."""
    instruction: bool = False
    """An instruction's body is being read: no scope rules hold there."""
    warp_groups: dict[str, int] = field(default_factory=dict)
    """Warps of each group of the launch; a launch by blockDim has one group named ""."""
    group: str | None = None
    """The group that the enclosing CudaWarps selected."""
    copy: CExpr | None = None
    """Inside a loop over a fragment: which of the copies of a row's value the thread has."""
    reading: Reading = field(default_factory=Reading)
    depth: int = 0
    """Levels around a macro that is being read, of the procedure and of other macros."""
    slots: dict[tuple[Sym, int], Sym] | None = None
    """The slots of the statement that is being read, by barrier and ring; None outside of one."""
    extremes: dict[Sym, Extreme] | None = None
    """By the variable that stands for it until its statement is read; None outside of one."""
    scopes: list[dict[str, Meaning]] = field(default_factory=lambda: [{}])

    def lookup(self, name: str) -> Meaning | None:
        """The language's meaning of a name, innermost first; None if it is Python's."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def declare(self, name: str, meaning: Meaning) -> None:
        """Bind a name in the innermost scope."""
        self.scopes[-1][name] = meaning

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A block: names declared in it end with it."""
        self.scopes.append({})
        try:
            yield
        finally:
            self.scopes.pop()

    def reject(self, code: str, message: str, node: ast.AST, help: str, *notes: Note) -> Reject:
        """The refusal of a statement, to be raised."""
        return Reject(Diagnostic(code, message, self.source.span(node), help, notes))

    def give_up(self, refusal: Reject) -> None:
        """Record why a statement is left out.

        Raises InternalError where nothing says it: the procedure would go on without the
        statement.
        """
        if refusal.diagnostic is not None:
            self.diagnostics.append(refusal.diagnostic)
        elif not self.diagnostics:
            raise InternalError(f"{self.source.function.name} lost a statement without a word")

    def report(self, code: str, message: str, node: ast.AST, help: str, *notes: Note) -> None:
        """A finding that does not end the statement."""
        self.diagnostics.append(Diagnostic(code, message, self.source.span(node), help, notes))

    def is_python(self, node: ast.AST) -> bool:
        """Tests whether an expression reads no variable of the language: metaprogramming."""
        return all(isinstance(self.lookup(name), Constant | None) for name in _names_read(node))

    def python_names(self) -> Mapping[str, object]:
        """The Python names that metaprogramming sees here."""
        bound = {
            name: meaning.value
            for scope in self.scopes
            for name, meaning in scope.items()
            if isinstance(meaning, Constant)
        }
        return ChainMap(bound, cast(MutableMapping[str, object], self.source.names))

    def _value(self, node: ast.expr) -> object:
        if isinstance(node, ast.Constant):  # most are: they need no names
            return node.value
        return python_value(node, self.python_names())

    def evaluate(self, node: ast.expr, then: Callable[[object], object] | None = None) -> object:
        """The Python value of a metaprogramming expression, and what `then` makes of it; a failure
        of either rejects the statement."""
        try:
            value = self._value(node)
            return value if then is None else then(value)
        except NameError as error:
            here = (name for scope in self.scopes for name in scope)
            remedy = undefined(error.name or "", (*here, *self.source.names))
            raise self.reject("P102", f"{error}", node, remedy) from None
        except UnfitError as error:
            raise self.reject("T221", str(error), node, error.help) from None
        except Exception as error:
            message = f"{ast.unparse(node)} fails: {type(error).__name__}: {error}"
            remedy = "mend this Python expression"
            if _divides(node) and "float" in str(error):
                remedy = "Python evaluates this, where / gives a float: write //"
            raise self.reject("P103", message, node, remedy) from None


@lru_cache(maxsize=16384)
def _names_read(node: ast.AST) -> tuple[str, ...]:
    """Returns the names in an expression; cached, since each of its parts asks again."""
    return tuple(one.id for one in ast.walk(node) if isinstance(one, ast.Name))


def _divides(node: ast.expr) -> bool:
    return any(isinstance(one, ast.Div) for one in ast.walk(node))
