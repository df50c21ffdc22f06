"""A rewriting as data: the new procedure, and where each of its statements comes from.

Nothing here is believed: `exogpu.schedule.checker` decides whether the new procedure does what
the old one did.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias, assert_never

from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Alloc,
    Apply,
    Argument,
    Arrive,
    Assign,
    Await,
    BarrierAlloc,
    BExpr,
    BinOp,
    Block,
    CallInstr,
    CallProc,
    CExpr,
    Const,
    CVar,
    DeviceFunction,
    DExpr,
    Fence,
    For,
    Free,
    If,
    Negate,
    Pass,
    Proc,
    Read,
    Reduce,
    Stmt,
    Uninit,
    Warps,
    WindowStmt,
)
from exogpu.ir.walk import (
    blocks,
    substitute,
    substitute_access,
    substitute_bool,
)
from exogpu.schedule.schedulable import Schedulable

Step: TypeAlias = tuple[str, int]
"""`("body", 2)` or `("orelse", 0)`: a statement of a block."""
Path: TypeAlias = tuple[Step, ...]
"""From the procedure's body to a statement."""


Site: TypeAlias = tuple[Stmt, ...]
"""A statement; inside a call, the call, then that of the body which it calls."""


@dataclass(frozen=True, slots=True)
class Image:
    """The new statement is the old one, at these values of the old one's iterators.

    Iterators that are not named are the new statement's own.
    """

    old: Stmt
    at: Mapping[Sym, CExpr] = field(default_factory=dict)
    inside: Site = ()
    """Where the old statement is a call: the statement of the body."""
    reads: tuple[int, ...] | None = None
    """Which read of the old statement each new one is, where sides of + or * are exchanged."""
    only: BExpr | None = None
    """Where the new statement is that one; elsewhere it stands for nothing."""


@dataclass(frozen=True, slots=True)
class Again:
    """The new statement computes once more what the old one did, and keeps it elsewhere.

    `at` as of an Image.  Nothing that it reads or wrote has changed in between.
    """

    old: Stmt
    at: Mapping[Sym, CExpr] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """Statements that are to be read as others, which do the same in their place.

    `whole` stand in a procedure one after the other; `parts` are read for them.  `made` are
    variables that only the parts use.  That they do the same `exogpu.schedule.laws` decides.
    """

    whole: Block
    parts: Block
    made: tuple[Alloc, ...] = ()


@dataclass(frozen=True, slots=True)
class Copy:
    """The new statement copies the value that this element of the old procedure has there.

    `at` gives the iterators around the element's allocation; those that are not named are the
    new statement's own.
    """

    element: Access
    at: Mapping[Sym, CExpr] = field(default_factory=dict)


Origin: TypeAlias = tuple[Image, ...] | Copy | Again
"""Of a statement that is no block; each of its instances is that of one Image at most."""


@dataclass(slots=True)
class Rewrite:
    """A new procedure, and a primitive's account of its statements; `body` is filled in last.

    A statement object that both procedures have is itself.  One that is new and of which nothing
    is said stands for nothing in the old procedure.  What is said of a call holds for the
    statements of its body, one by one.
    """

    old: Proc
    new: Proc
    origins: dict[Stmt, Origin] = field(default_factory=dict)
    inner: dict[Site, tuple[Image, ...]] = field(default_factory=dict)
    """The same of statements inside of new calls."""
    equal: dict[CallProc, tuple[Schedulable, Schedulable]] = field(default_factory=dict)
    """Of a new call, the procedure that it calls, and one to be read in its place."""
    readings: dict[Stmt, Reading] = field(default_factory=dict)
    """Of either procedure, by the first statement of the whole."""
    assumed: set[str] = field(default_factory=set)
    """What the checker took for granted to accept it; filled in by the checker alone."""
    after: Rewrite | None = None
    """The rewriting that made `old`, where a step is made of several: all are checked."""
    by_results: bool = False
    """Whether both procedures are compared by what they leave, sums as sets of terms, and not
    statement by statement."""
    followed: dict[Stmt, Stmt] = field(default_factory=dict)
    """By a new statement, blocks included, the old one that cursors follow to it."""
    joined: dict[Stmt, Stmt] = field(default_factory=dict)
    """By an old statement that is now a part of another new one, that one."""

    def becomes(self, old: Stmt, new: Stmt, at: Mapping[Sym, CExpr] | None = None) -> None:
        """Note that `new` is `old` at those iterators."""
        self.followed.setdefault(new, old)
        if not blocks(new):
            before = self.origins.get(new, ())
            assert isinstance(before, tuple)
            self.origins[new] = (*before, Image(old, dict(at or {})))

    def origin(self, site: Site, kept: Container[Stmt]) -> Origin:
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


def begun(proc: Proc) -> Rewrite:
    """A rewriting that changes nothing so far."""
    return Rewrite(proc, proc)


# --- paths ----------------------------------------------------------------------------------


def block_at(proc: Proc, path: Path) -> Block:
    """The block that the statement of a path stands in."""
    block = proc.body
    for (_, at), (inner, _) in pairwise(path):
        block = getattr(block[at], inner)
    return block


def stmt_at(proc: Proc, path: Path) -> Stmt:
    """The statement of a path."""
    return block_at(proc, path)[path[-1][1]]


def around(proc: Proc, path: Path) -> tuple[Stmt, ...]:
    """The statements that contain that of a path, outermost first."""
    return tuple(stmt_at(proc, path[:n]) for n in range(1, len(path)))


def paths(proc: Proc) -> Iterator[tuple[Path, Stmt]]:
    """Every statement with its path, in program order."""

    def inside(block: Block, head: Path, name: str) -> Iterator[tuple[Path, Stmt]]:
        for at, stmt in enumerate(block):
            path = (*head, (name, at))
            yield path, stmt
            for field_name, inner in zip(("body", "orelse"), blocks(stmt), strict=False):
                yield from inside(inner, path, field_name)

    yield from inside(proc.body, (), "body")


def splice(edit: Rewrite, path: Path, count: int, new: Block) -> None:
    """Put statements in the place of `count` others, and rebuild what contains them."""
    edit.new = replace(edit.new, body=_spliced(edit, edit.new.body, path, count, new))


def _spliced(edit: Rewrite, block: Block, path: Path, count: int, new: Block) -> Block:
    (_, at), *rest = path
    if not rest:
        return (*block[:at], *new, *block[at + count :])
    field_name, stmt = rest[0][0], block[at]
    inner = _spliced(edit, getattr(stmt, field_name), tuple(rest), count, new)
    changed: Stmt = replace(stmt, **{field_name: inner})  # type: ignore[arg-type]
    edit.followed[changed] = edit.followed.get(stmt, stmt)
    return (*block[:at], changed, *block[at + 1 :])


# --- copies of statements -------------------------------------------------------------------

Rename: TypeAlias = Callable[[Access], Access]


def _unchanged(access: Access) -> Access:
    return access


def copied(
    edit: Rewrite,
    block: Block,
    values: Mapping[Sym, CExpr],
    *,
    fresh: bool = True,
    access: Rename = _unchanged,
    said: Mapping[Sym, CExpr] | None = None,
) -> Block:
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
    values: dict[Sym, CExpr]
    said: dict[Sym, CExpr]
    names: dict[Sym, Sym]

    def block(self, block: Block) -> Block:
        return tuple(self.stmt(stmt) for stmt in block)

    def stmt(self, stmt: Stmt) -> Stmt:
        new = self.made(stmt)
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

    def made(self, stmt: Stmt) -> Stmt:
        values = self.values
        match stmt:
            case For():
                lo, hi = substitute(stmt.lo, values), substitute(stmt.hi, values)
                iterator = stmt.iterator
                if self.fresh:
                    iterator = Sym(iterator.name)
                    values[stmt.iterator] = self.said[stmt.iterator] = CVar(iterator)
                return replace(stmt, iterator=iterator, lo=lo, hi=hi, body=self.block(stmt.body))
            case If():
                condition = substitute_bool(stmt.condition, values)
                body, orelse = self.block(stmt.body), self.block(stmt.orelse)
                return replace(stmt, condition=condition, body=body, orelse=orelse)
            case DeviceFunction() | Warps():
                return replace(stmt, body=self.block(stmt.body))
            case Assign() | Reduce():
                target, value = self.access(stmt.target), self.value(stmt.value)
                return replace(stmt, target=target, value=value)
            case CallInstr():
                trailing = None if stmt.trailing is None else self.access(stmt.trailing)
                arguments = tuple(self.argument(a) for a in stmt.arguments)
                return replace(stmt, arguments=arguments, trailing=trailing)
            case CallProc():
                return replace(stmt, arguments=tuple(self.argument(a) for a in stmt.arguments))
            case Alloc():
                shape = tuple(substitute(n, values) for n in stmt.shape)
                return replace(stmt, name=self.declared(stmt.name), shape=shape)
            case BarrierAlloc():
                shape = tuple(substitute(n, values) for n in stmt.shape)
                guard = None if stmt.guard is None else self.names.get(stmt.guard, stmt.guard)
                return replace(stmt, name=self.declared(stmt.name), shape=shape, guard=guard)
            case WindowStmt():
                source = self.access(stmt.source)
                return replace(stmt, name=self.declared(stmt.name), source=source)
            case Free():
                return replace(stmt, name=self.names.get(stmt.name, stmt.name))
            case Arrive():
                return replace(stmt, targets=tuple(self.access(a) for a in stmt.targets))
            case Await():
                return replace(stmt, barrier=self.access(stmt.barrier))
            case Uninit():
                return replace(stmt, access=self.access(stmt.access))
            case Fence() | Pass():
                return replace(stmt)
            case _:
                assert_never(stmt)

    def declared(self, name: Sym) -> Sym:
        if self.fresh:
            self.names[name] = Sym(name.name)
        return self.names.get(name, name)

    def access(self, access: Access) -> Access:
        here = self.change(substitute_access(access, self.values))
        return replace(here, name=self.names.get(here.name, here.name))

    def argument(self, argument: Argument) -> Argument:
        match argument:
            case Access():
                return self.access(argument)
            case Const():
                return argument
            case _:
                return substitute(argument, self.values)

    def value(self, expr: DExpr) -> DExpr:
        return map_reads(expr, lambda read: replace(read, access=self.access(read.access)))


def map_reads(expr: DExpr, change: Callable[[Read], DExpr]) -> DExpr:
    """The expression with its reads changed."""
    match expr:
        case Const():
            return expr
        case Read():
            return change(expr)
        case BinOp():
            left, right = map_reads(expr.left, change), map_reads(expr.right, change)
            return replace(expr, left=left, right=right)
        case Negate():
            return replace(expr, term=map_reads(expr.term, change))
        case Apply():
            return replace(expr, arguments=tuple(map_reads(a, change) for a in expr.arguments))
        case _:
            assert_never(expr)


def composed(origin: Origin, values: Mapping[Sym, CExpr]) -> Origin:
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
