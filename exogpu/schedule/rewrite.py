"""A rewriting as data: the new procedure, and where each of its statements comes from.

Nothing here is believed: `exogpu.schedule.checking.checker` decides whether the new procedure does
what the old one did.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias, assert_never

from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import blocks, map_reads, substitute, substitute_access, substitute_bool
from exogpu.schedule.argument_types import Schedulable

Step: TypeAlias = tuple[str, int]
"""`("body", 2)` or `("orelse", 0)`: a statement of a block."""
Path: TypeAlias = tuple[Step, ...]
"""From the procedure's body to a statement."""


Site: TypeAlias = tuple[ir.Stmt, ...]
"""A statement; inside a call, the call, then that of the body which it calls."""


@dataclass(frozen=True, slots=True)
class Image:
    """The new statement is the old one, at these values of the old one's iterators.

    Iterators that are not named are the new statement's own.
    """

    old: ir.Stmt
    at: Mapping[Sym, ir.CExpr] = field(default_factory=dict)
    inside: Site = ()
    """Where the old statement is a call: the statement of the body."""
    reads: tuple[int, ...] | None = None
    """The number of the old statement's read for each new one, where sides of + or * are
    exchanged."""
    only: ir.BExpr | None = None
    """Where the new statement is that one; elsewhere it stands for nothing."""


@dataclass(frozen=True, slots=True)
class Again:
    """The new statement computes once more what the old one did, and keeps it elsewhere.

    `at` as of an Image.  Nothing that it reads or wrote has changed in between.
    """

    old: ir.Stmt
    at: Mapping[Sym, ir.CExpr] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """Statements that are to be read as others, which do the same in their place.

    `whole` stand in a procedure one after the other; `parts` are read for them.  `made` are
    variables that only the parts use.  That they do the same `exogpu.schedule.checking.laws`
    decides.
    """

    whole: ir.Block
    parts: ir.Block
    made: tuple[ir.Alloc, ...] = ()


@dataclass(frozen=True, slots=True)
class Copy:
    """The new statement copies the value that this element of the old procedure has there.

    `at` gives the iterators around the element's allocation; those that are not named are the
    new statement's own.
    """

    element: ir.Access
    at: Mapping[Sym, ir.CExpr] = field(default_factory=dict)


Origin: TypeAlias = tuple[Image, ...] | Copy | Again
"""The origin of a statement that is no block; each of its instances is that of one Image at
most."""


@dataclass(slots=True)
class Rewrite:
    """A new procedure, and a primitive's account of its statements; `body` is filled in last.

    A statement object that both procedures have is itself.  One that is new and of which nothing
    is said stands for nothing in the old procedure.  What is said of a call holds for the
    statements of its body, one by one.
    """

    old: ir.Proc
    new: ir.Proc
    origins: dict[ir.Stmt, Origin] = field(default_factory=dict)
    inner: dict[Site, tuple[Image, ...]] = field(default_factory=dict)
    """The same of statements inside of new calls."""
    equal: dict[ir.CallProc, tuple[Schedulable, Schedulable]] = field(default_factory=dict)
    """The procedure that a new call calls, and one to be read in its place."""
    readings: dict[ir.Stmt, Reading] = field(default_factory=dict)
    """The readings of either procedure, by the first statement of the whole."""
    assumed: set[str] = field(default_factory=set)
    """The assumptions under which the checker accepts it; filled in by the checker alone."""
    after: Rewrite | None = None
    """The rewriting that made `old`, where a step is made of several: all are checked."""
    by_results: bool = False
    """Both procedures are compared by their results, sums as sets of terms, and not statement by
    statement."""
    followed: dict[ir.Stmt, ir.Stmt] = field(default_factory=dict)
    """By a new statement, blocks included, the old one that cursors follow to it."""
    joined: dict[ir.Stmt, ir.Stmt] = field(default_factory=dict)
    """By an old statement that is now a part of another new one, that one."""

    def becomes(self, old: ir.Stmt, new: ir.Stmt, at: Mapping[Sym, ir.CExpr] | None = None) -> None:
        """Note that `new` is `old` at those iterators."""
        self.followed.setdefault(new, old)
        if not blocks(new):
            before = self.origins.get(new, ())
            assert isinstance(before, tuple)
            self.origins[new] = (*before, Image(old, dict(at or {})))

    def origin(self, site: Site, kept: Container[ir.Stmt]) -> Origin:
        """Returns the origin of a statement of the new procedure; `kept` are statements of the old
        one."""
        for length in range(len(site), 0, -1):
            head, rest = site[:length], site[length:]
            said: Origin | None = self.inner.get(head)
            if length == 1:
                said = self.origins.get(head[0], (Image(head[0]),) if head[0] in kept else None)
            if isinstance(said, Copy | Again):
                return () if rest else said
            if said is not None:
                return tuple(replace(image, inside=(*image.inside, *rest)) for image in said)
        return ()


def is_plain(edit: Rewrite) -> bool:
    """Tests whether an edit consists of images and copies alone, without assumptions: no readings,
    nothing computed again, one step."""
    said = [*edit.origins.values(), *edit.inner.values()]
    images = [image for origin in said if isinstance(origin, tuple) for image in origin]
    return not (
        edit.readings
        or edit.assumed
        or edit.after is not None
        or any(isinstance(origin, Again) for origin in said)
        or any(image.only is not None for image in images)
    )


def unchanged_rewrite(proc: ir.Proc) -> Rewrite:
    """A rewriting that changes nothing so far."""
    return Rewrite(proc, proc)


# --- paths ----------------------------------------------------------------------------------


def block_at(proc: ir.Proc, path: Path) -> ir.Block:
    """The block that the statement of a path stands in."""
    block = proc.body
    for (_, at), (inner, _) in pairwise(path):
        block = getattr(block[at], inner)
    return block


def stmt_at(proc: ir.Proc, path: Path) -> ir.Stmt:
    """The statement of a path."""
    return block_at(proc, path)[path[-1][1]]


def enclosing_statements(proc: ir.Proc, path: Path) -> tuple[ir.Stmt, ...]:
    """The statements that contain that of a path, outermost first."""
    return tuple(stmt_at(proc, path[:n]) for n in range(1, len(path)))


def paths(proc: ir.Proc) -> Iterator[tuple[Path, ir.Stmt]]:
    """Every statement with its path, in program order."""

    def walk_block(block: ir.Block, head: Path, name: str) -> Iterator[tuple[Path, ir.Stmt]]:
        for at, stmt in enumerate(block):
            path = (*head, (name, at))
            yield path, stmt
            for field_name, inner in zip(("body", "orelse"), blocks(stmt), strict=False):
                yield from walk_block(inner, path, field_name)

    yield from walk_block(proc.body, (), "body")


def splice(edit: Rewrite, path: Path, count: int, new: ir.Block) -> None:
    """Put statements in the place of `count` others, and rebuild what contains them."""
    edit.new = replace(edit.new, body=_spliced(edit, edit.new.body, path, count, new))


def _spliced(edit: Rewrite, block: ir.Block, path: Path, count: int, new: ir.Block) -> ir.Block:
    (_, at), *rest = path
    if not rest:
        return (*block[:at], *new, *block[at + count :])
    field_name, stmt = rest[0][0], block[at]
    inner = _spliced(edit, getattr(stmt, field_name), tuple(rest), count, new)
    changed: ir.Stmt = replace(stmt, **{field_name: inner})  # type: ignore[arg-type]
    edit.followed[changed] = edit.followed.get(stmt, stmt)
    return (*block[:at], changed, *block[at + 1 :])


# --- copies of statements -------------------------------------------------------------------

Rename: TypeAlias = Callable[[ir.Access], ir.Access]


def _unchanged(access: ir.Access) -> ir.Access:
    return access


def copied(
    edit: Rewrite,
    block: ir.Block,
    values: Mapping[Sym, ir.CExpr],
    *,
    fresh: bool = True,
    access: Rename = _unchanged,
    said: Mapping[Sym, ir.CExpr] | None = None,
) -> ir.Block:
    """The block with control variables replaced and accesses changed, every statement new.

    With `fresh`, what it declares gets new names.  `said` are the old iterators of the images,
    where they differ from `values`.
    """
    maker = _Copies(edit, fresh, access, dict(values), dict(values if said is None else said), {})
    return maker.block(block)


@dataclass(slots=True)
class _Copies:
    edit: Rewrite
    fresh: bool
    change: Rename
    values: dict[Sym, ir.CExpr]
    said: dict[Sym, ir.CExpr]
    names: dict[Sym, Sym]

    def block(self, block: ir.Block) -> ir.Block:
        return tuple(self.stmt(stmt) for stmt in block)

    def stmt(self, stmt: ir.Stmt) -> ir.Stmt:
        new = self.copy_statement(stmt)
        old = self.edit.followed.get(stmt, stmt)
        origin = self.edit.origins.get(stmt)
        if origin is None:
            self.edit.becomes(old, new, self.said)
        else:  # of a statement that this rewriting made already
            self.edit.followed[new] = old
            self.edit.origins[new] = composed(origin, self.said)
        for site in [s for s in self.edit.inner if s[0] is stmt]:
            images = composed(self.edit.inner[site], self.said)
            assert isinstance(images, tuple)
            self.edit.inner[new, *site[1:]] = images
        return new

    def copy_statement(self, stmt: ir.Stmt) -> ir.Stmt:
        values = self.values
        match stmt:
            case ir.For():
                lo, hi = substitute(stmt.lo, values), substitute(stmt.hi, values)
                iterator = stmt.iterator
                if self.fresh:
                    iterator = Sym(iterator.name)
                    values[stmt.iterator] = self.said[stmt.iterator] = ir.CVar(iterator)
                return replace(stmt, iterator=iterator, lo=lo, hi=hi, body=self.block(stmt.body))
            case ir.If():
                condition = substitute_bool(stmt.condition, values)
                body, orelse = self.block(stmt.body), self.block(stmt.orelse)
                return replace(stmt, condition=condition, body=body, orelse=orelse)
            case ir.DeviceFunction() | ir.Warps():
                return replace(stmt, body=self.block(stmt.body))
            case ir.Assign() | ir.Reduce():
                target, value = self.access(stmt.target), self.value(stmt.value)
                return replace(stmt, target=target, value=value)
            case ir.CallInstr():
                trailing = None if stmt.trailing is None else self.access(stmt.trailing)
                arguments = tuple(self.argument(a) for a in stmt.arguments)
                return replace(stmt, arguments=arguments, trailing=trailing)
            case ir.CallProc():
                return replace(stmt, arguments=tuple(self.argument(a) for a in stmt.arguments))
            case ir.Alloc():
                shape = tuple(substitute(n, values) for n in stmt.shape)
                return replace(stmt, name=self.declared(stmt.name), shape=shape)
            case ir.BarrierAlloc():
                shape = tuple(substitute(n, values) for n in stmt.shape)
                guard = None if stmt.guard is None else self.names.get(stmt.guard, stmt.guard)
                return replace(stmt, name=self.declared(stmt.name), shape=shape, guard=guard)
            case ir.WindowStmt():
                source = self.access(stmt.source)
                return replace(stmt, name=self.declared(stmt.name), source=source)
            case ir.Free():
                return replace(stmt, name=self.names.get(stmt.name, stmt.name))
            case ir.Arrive():
                return replace(stmt, targets=tuple(self.access(a) for a in stmt.targets))
            case ir.Await():
                return replace(stmt, barrier=self.access(stmt.barrier))
            case ir.Uninit():
                return replace(stmt, access=self.access(stmt.access))
            case ir.Fence() | ir.Pass():
                return replace(stmt)
            case _:
                assert_never(stmt)

    def declared(self, name: Sym) -> Sym:
        if self.fresh:
            self.names[name] = Sym(name.name)
        return self.names.get(name, name)

    def access(self, access: ir.Access) -> ir.Access:
        here = self.change(substitute_access(access, self.values))
        return replace(here, name=self.names.get(here.name, here.name))

    def argument(self, argument: ir.Argument) -> ir.Argument:
        match argument:
            case ir.Access():
                return self.access(argument)
            case ir.Const():
                return argument
            case _:
                return substitute(argument, self.values)

    def value(self, expr: ir.DExpr) -> ir.DExpr:
        return map_reads(expr, lambda read: replace(read, access=self.access(read.access)))


def composed(origin: Origin, values: Mapping[Sym, ir.CExpr]) -> Origin:
    """The origin of a statement whose own iterators are replaced."""
    if isinstance(origin, Copy):
        at = {s: substitute(e, values) for s, e in origin.at.items()}
        return Copy(substitute_access(origin.element, values), {**values, **at})
    if isinstance(origin, Again):
        at = {s: substitute(e, values) for s, e in origin.at.items()}
        return Again(origin.old, {**values, **at})
    return tuple(
        replace(
            one,
            at={**values, **{s: substitute(e, values) for s, e in one.at.items()}},
            only=None if one.only is None else substitute_bool(one.only, values),
        )
        for one in origin
    )
