"""Elements that are read before anything has been written to them, by the sequential reading.

Nothing is out of order then, so that a proof says nothing of it: what the memory holds is read, in
sequence as in parallel.  Told is only what is read so at all sizes at which it is read, since a
tile is often filled in part, at its edge, and what depends on the rest is not kept.  What is too
large for ISL, and what depends on values from memory or on slots, is not looked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from exogpu.analysis.facts import Facts
from exogpu.analysis.instances import controls, size_constraints
from exogpu.analysis.overwritten import Overwritten, overwritten
from exogpu.analysis.uses import Declared, Use
from exogpu.frontend.quote import quote_access
from exogpu.ir.isltext import bexpr, cexpr, conjunction, identifier, in_range
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Access,
    Alloc,
    Assign,
    CallInstr,
    DataParam,
    For,
    Instr,
    Interval,
    Loaded,
    Proc,
    Reduce,
    Slot,
    Stmt,
)
from exogpu.ir.types import AccessMode
from exogpu.ir.walk import passed, reads, walk
from exogpu.result.errors import Diagnostic
from exogpu.solvers import isl
from exogpu.solvers.isl_budget import IslGaveUpError, limited

BUDGET = 5_000_000
"""Operations of ISL: half a second at most."""


def unwritten(facts: Facts) -> tuple[Diagnostic, ...]:
    """The first such read of each variable that is allocated at CUDA scope."""
    order = {stmt: at for at, stmt in enumerate(walk(facts.proc.body))}
    opaque = frozenset(
        stmt.iterator
        for stmt in order
        if isinstance(stmt, For) and isinstance(stmt.mode, Slot | Loaded)
    )
    found: list[Diagnostic] = []
    try:
        with limited(BUDGET):
            for variable in facts.variables:
                if isinstance(variable.declaration, Alloc):
                    found += _Variable(facts.proc, variable, order, opaque).diagnostics()
    except IslGaveUpError:
        pass
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable and the loops around its uses: those around its allocation are parameters."""

    proc: Proc
    declared: Declared
    order: Mapping[Stmt, int]
    opaque: frozenset[Sym]
    loops: frozenset[Sym] = field(init=False)
    params: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        loops = frozenset(stmt.iterator for stmt in self.order if isinstance(stmt, For))
        outer = self.declared.where.iterators
        names = (*(p.name for p in controls(self.proc)), *outer)
        object.__setattr__(self, "loops", loops)
        object.__setattr__(self, "params", tuple(map(identifier, names)))

    def diagnostics(self) -> Iterator[Diagnostic]:
        for use in self.declared.uses:
            if self.opaque & {*use.where.iterators}:
                continue  # what is loaded, or counted, is not known here
            for part in _read(use):
                left = self.left(use, part)
                if not isl.is_empty(left):
                    yield self.diagnostic(use, isl.domain(left))
                    return

    def left(self, use: Use, part: Overwritten) -> isl.Map:
        """The iterations of a read with the elements that nothing has written at any sizes; of an
        instruction, which need not look at all of its operand, those in which it is all of it."""
        read = self.cells(use, part)
        left = self.whatever_sizes(read)
        for other in self.declared.uses:
            if isl.is_empty(left):
                break
            if _writes(other):
                written = self.cells(other, Overwritten((), (), _window_of(other)))
                seen = isl.intersect_map(read, isl.compose(self.before(use, other), written))
                seen = self.whatever_sizes(seen)
                if isinstance(use.stmt, CallInstr):
                    rest = isl.subtract(isl.domain(left), isl.domain(seen))
                    left = isl.restrict_domain(left, rest)
                else:
                    left = isl.subtract_map(left, seen)
        return left

    def whatever_sizes(self, relation: isl.Map) -> isl.Map:
        """The pairs that there are at some sizes."""
        for param in controls(self.proc):
            relation = isl.drop_param(relation, identifier(param.name))
        return relation

    def iterators(self, use: Use) -> list[Sym]:
        """Returns the iterators between the allocation and the use, without those of an
        instruction's threads."""
        inner = use.where.iterators[len(self.declared.where.iterators) :]
        return [name for name in inner if name in self.loops]

    def cells(self, use: Use, part: Overwritten) -> isl.Map:
        """From iterations to the elements that are touched, inside the variable."""
        declaration = self.declared.declaration
        elements = [f"e{at}" for at in range(len(declaration.shape))]
        inside = [*size_constraints(self.proc), *(text for _, text in use.where.conditions)]
        for name, coord, extent in zip(
            elements, part.access.coords, declaration.shape, strict=True
        ):
            inside.append(f"0 <= {name} < {cexpr(extent)}")
            if isinstance(coord, Interval):
                inside.append(f"{cexpr(coord.lo)} <= {name} < {cexpr(coord.hi)}")
            else:
                inside.append(f"{name} = {cexpr(coord.at)}")
        inside += [in_range(each.name, each.lo, each.hi) for each in part.each]
        inside += map(bexpr, part.guards)
        constraint = conjunction(inside)
        if part.each:
            names = ", ".join(identifier(each.name) for each in part.each)
            constraint = f"exists {names}: ({constraint})"
        dims = [identifier(name) for name in self.iterators(use)]
        return isl.map_of(self.params, dims, elements, constraint)

    def before(self, use: Use, other: Use) -> isl.Map:
        """From iterations of a use to those of another one that come before it in sequence."""
        mine, theirs = self.iterators(use), self.iterators(other)
        here = [f"r{at}" for at in range(len(mine))]
        there = [f"w{at}" for at in range(len(theirs))]
        common = 0
        while common < min(len(mine), len(theirs)) and mine[common] is theirs[common]:
            common += 1
        equal = [f"{w} = {r}" for w, r in zip(there, here, strict=False)]
        earlier = [conjunction([*equal[:at], f"{there[at]} < {here[at]}"]) for at in range(common)]
        if self.order[other.stmt] < self.order[use.stmt]:
            earlier.append(conjunction(equal[:common]))
        return isl.map_of(self.params, here, there, " or ".join(earlier) or "0 = 1")

    def diagnostic(self, use: Use, where: isl.Set) -> Diagnostic:
        name = self.declared.declaration.name.name
        said = quote_access(use.access)
        sizes = ", whatever the sizes" if controls(self.proc) else ""
        known = {identifier(p.name): p.name.name for p in controls(self.proc)}
        known |= {identifier(i): i.name for i in use.where.iterators}
        first = isl.smallest(where) or {}
        at = ", ".join(f"{known[key]} = {value}" for key, value in first.items() if key in known)
        return Diagnostic(
            "B607",
            f"{said} is read before anything is written there{sizes}{at and f': first at {at}'}",
            use.span,
            f"write {name} first: else it is whatever the memory holds, in sequence, too",
        )


def _window_of(use: Use) -> Access:
    """The window as it is given, whose threads are not told apart."""
    if isinstance(use.stmt, CallInstr) and use.argument is not None:
        given = use.stmt.arguments[use.argument]
        assert isinstance(given, Access)
        return given
    return use.access


def _mode(use: Use) -> AccessMode | None:
    """Returns how a use accesses the variable; None for a barrier."""
    match use.stmt:
        case Reduce() if use.access is use.stmt.target:
            return AccessMode.READ_WRITE
        case Assign() if use.access is use.stmt.target:
            return AccessMode.WRITE
        case Assign() | Reduce():
            return AccessMode.READ
        case CallInstr() if use.argument is not None:
            param = use.stmt.instr.params[use.argument]
            return next(one.mode for one in passed(use.stmt) if one.param is param)
    return None


def _writes(use: Use) -> bool:
    return _mode(use) in (AccessMode.WRITE, AccessMode.READ_WRITE)


def _written_first(instr: Instr, param: Sym) -> bool:
    """Tests whether the body of an instruction writes an operand before it reads it anywhere."""
    for stmt in walk(instr.body):
        if isinstance(stmt, Assign | Reduce):
            if isinstance(stmt, Reduce) and stmt.target.name is param:
                return False
            if any(access.name is param for access in reads(stmt.value)):
                return False
            if stmt.target.name is param:
                return True
    return False


def _read(use: Use) -> tuple[Overwritten, ...]:
    """The elements that a use reads, part by part; none where that is not sure."""
    if _mode(use) not in (AccessMode.READ, AccessMode.READ_WRITE):
        return ()
    given = _window_of(use)
    if not isinstance(use.stmt, CallInstr) or use.argument is None:
        return (Overwritten((), (), given),)
    param = use.stmt.instr.params[use.argument]
    assert isinstance(param, DataParam)
    if _written_first(use.stmt.instr, param.name):
        return ()
    found = overwritten(use.stmt, param, given)
    return (Overwritten((), (), given),) if found is None else found
