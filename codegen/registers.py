"""Elements of register tiles as C++ text: which of a thread's registers each is.

The map of the tile says it of any element; a statement's indices are put in and the thread drops
out, since the thread holds the element.  What is left is constant once the loops are unrolled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from exogpu.codegen.control_text import Control, plus, simplify, times
from exogpu.codegen.names import unsupported
from exogpu.codegen.storage import Storage
from exogpu.diagnostics.errors import Diagnostic, InternalError
from exogpu.ir import nodes as ir
from exogpu.ir.affine import Affine, Floor, Range, Rest, from_cexpr, mentions
from exogpu.ir.types import Space, Sym
from exogpu.ir.walk import accesses, blocks, control_variables, walk


def without_thread(index: ir.CExpr, access: ir.Access, control: Control) -> ir.CExpr:
    """An index of registers without the iterators over threads that stand in it.

    Raises ExoGpuError (G802) where it depends on them: registers are not indexed by the thread.
    """
    read = control_variables(index)
    if read.isdisjoint(control.threads):
        return index
    ranges = dict(_ranges(control))
    form = from_cexpr(index, {}, ranges)
    if mentions(form, control.threads):
        raise unsupported(
            f"which register {access.name} is in is not told without the thread",
            access.span,
            "index the tile by the iterators of its fragment",
            "G802",
        )
    return _expression(form)


def _ranges(control: Control) -> Iterator[tuple[Sym, Range]]:
    """The iterators that go from one constant to another."""
    for name, (first, last) in control.bounds.items():
        if isinstance(first, ir.Int) and isinstance(last, ir.Int):
            yield name, Range(first.value, last.value)


def _expression(form: Affine) -> ir.CExpr:
    """A quasi-affine form as an expression."""
    total: ir.CExpr = ir.Int(0)
    for atom, coefficient in form.terms:
        if isinstance(atom, Sym):
            term: ir.CExpr = ir.CVar(atom)
        elif isinstance(atom, Floor):
            term = ir.FloorDiv(_expression(atom.form), atom.divisor)
        elif isinstance(atom, Rest):
            term = ir.Mod(_expression(atom.form), atom.divisor)
        else:
            raise InternalError("an index has a table")
        total = plus(total, times(coefficient, term))
    return plus(total, ir.Int(form.constant))


def pairs(loop: ir.For, storage: Mapping[Sym, Storage], control: Control) -> frozenset[ir.Stmt]:
    """The statements of a loop that write the two elements of each of some registers, and what they
    write is not read in the loop."""
    if loop.lo != ir.Int(0) or loop.hi != ir.Int(2) or not isinstance(loop.mode, ir.Seq):
        return frozenset()
    found: set[ir.Stmt] = set()
    for stmt in loop.body:
        if not isinstance(stmt, ir.Assign) or not storage[stmt.target.name].packed:
            continue
        variable = storage[stmt.target.name]
        touched = [a for inner in walk(loop.body) for a in accesses(inner)]
        alone = sum(a.name == stmt.target.name for a in touched) == 1
        if alone and _halves(loop.iterator, stmt.target, variable, control):
            found.add(stmt)
    return frozenset(found)


def _halves(iterator: Sym, target: ir.Access, variable: Storage, control: Control) -> bool:
    """Tests whether 0 and 1 of an iterator are the two elements of a register, the same one of the
    same tile."""
    assert variable.held is not None, "what has no fragment has no elements"
    indices = [c.at if isinstance(c, ir.Point) else c.lo for c in target.coords]
    inside = len(indices) - variable.tile_rank
    number = variable.held.register(indices[inside:])
    ranges = dict(_ranges(control))
    half, *others = (
        from_cexpr(simplify(index, control.constants), {}, ranges)
        for index in (ir.Mod(number, 2), ir.FloorDiv(number, 2), *indices[:inside])
    )
    return half == Affine(0, ((iterator, 1),)) and not any(mentions(o, [iterator]) for o in others)


# Registers that are indexed by what is known only at run time: ptxas puts them into memory.


def addressed(proc: ir.Proc, storage: Mapping[Sym, Storage]) -> tuple[Diagnostic, ...]:
    """A warning a variable (G816), at the first such access.

    Registers have no addresses: an index has to be constant once the loops from one constant to
    another are unrolled.  What the compiler makes constant in another way is not known here.
    """
    found: dict[Sym, Diagnostic] = {}
    for stmt in walk(proc.body):
        if isinstance(stmt, ir.DeviceFunction):
            for access, names in _accesses(stmt.body, frozenset(), storage):
                found.setdefault(access.name, _local_memory_warning(access, names))
    return tuple(found.values())


def _accesses(
    block: ir.Block, known: frozenset[Sym], storage: Mapping[Sym, Storage]
) -> Iterator[tuple[ir.Access, tuple[Sym, ...]]]:
    """Yields the accesses to registers whose indices have other variables than the known ones, with
    these variables."""
    for stmt in block:
        for access in accesses(stmt):
            variable = storage.get(access.name)
            if variable is not None and variable.space is Space.REGISTER:
                names = {
                    name: None
                    for name in _register_variables(access, variable)
                    if name not in known
                }
                if names:
                    yield access, tuple(names)
        inside = known | {stmt.iterator} if isinstance(stmt, ir.For) and _constant(stmt) else known
        for inner in blocks(stmt):
            yield from _accesses(inner, inside, storage)


def _constant(loop: ir.For) -> bool:
    """Tests whether a thread's code has the value of the iterator: iterators of thread loops drop
    out of register indices."""
    if isinstance(loop.mode, ir.CudaThreads):
        return True
    if not isinstance(loop.mode, ir.Seq) or loop.mode.unroll:
        return False
    return isinstance(loop.lo, ir.Int) and isinstance(loop.hi, ir.Int)


def _register_variables(access: ir.Access, variable: Storage) -> Iterator[Sym]:
    """The variables that tell the register."""
    rank = len(variable.shape)
    inside = range(rank - variable.tile_rank, rank)
    for dimension in (*variable.kept, *inside):
        coord = access.coords[dimension]
        index = simplify(coord.at if isinstance(coord, ir.Point) else coord.lo, {})
        yield from sorted(control_variables(index), key=lambda name: name.number)


def _local_memory_warning(access: ir.Access, names: tuple[Sym, ...]) -> Diagnostic:
    shown = " and ".join(name.name for name in names)
    return Diagnostic(
        "G816",
        f"{access.name} is in local memory, not in registers: its index has {shown}, known only at "
        "run time",
        access.span,
        "index it by constants, or by iterators of loops from one constant to another, which are "
        "unrolled",
    )
