"""Ownership relations (section Distributed Memory Analysis): `own: index -> owner`.

The owner of an index is the set of units (threads, warps, warpgroups or CTAs) that access it.
A relation is parametric in the iterators in scope where the variable is allocated: each
iteration of them has a variable of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from exogpu.analysis.load_facts import load_conditions
from exogpu.analysis.thread_names import CollectiveFacts, Desugared, numbers, thread_names
from exogpu.analysis.tiling import Tiling
from exogpu.diagnostics.errors import Span
from exogpu.ir import nodes as ir
from exogpu.ir.render import conjunction, identifier, in_range, isl_cond, isl_expr
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables, reads, walk
from exogpu.solvers import isl

# Uses of CUDA-scoped variables: who accesses which coordinates, under which loops and guards.


@dataclass(frozen=True, slots=True)
class Where:
    """The place of a statement: its tiling, its iterators, and what holds of them."""

    tiling: Tiling
    iterators: tuple[Sym, ...]
    """All enclosing iterators, outermost first, those of instruction calls included."""
    conditions: tuple[tuple[frozenset[Sym], str], ...]
    """ISL constraints of loops and guards, with the variables that each one reads."""


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """One access of a variable: distributed dimensions of calls are points already."""

    stmt: ir.Stmt
    access: ir.Access
    where: Where
    span: Span
    argument: int | None = None
    """The argument of a call; None for its trailing barrier."""


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """A CUDA-scoped variable, where it is allocated, and its uses in program order."""

    declaration: ir.Alloc | ir.BarrierAlloc
    where: Where
    block: ir.Block
    """The block that the declaration stands in."""
    uses: tuple[Use, ...]


def cuda_variables(proc: ir.Proc, facts: CollectiveFacts) -> tuple[Declared, ...]:
    """Every data and barrier variable allocated at CUDA scope, in program order."""
    collect = _Collect(facts, proc.contracts, {}, {})
    sizes = [p.name for p in proc.params if isinstance(p, ir.ControlParam) and p.kind == "size"]
    premise = [(frozenset({n}), f"{identifier(n)} >= 0") for n in sizes]
    premise += [_guard(p) for p in proc.preconditions]
    collect.block(proc.body, (), tuple(premise))
    return tuple(
        Declared(declaration, where, block, tuple(collect.uses.get(name, ())))
        for name, (declaration, where, block) in collect.declared.items()
    )


def distributed(access: ir.Access, loops: Desugared | None) -> ir.Access:
    """The access with its leading interval coordinates replaced by the loops of its call."""
    iterators = list(loops.iterators) if loops is not None else []
    coords: list[ir.Coord] = []
    for coord in access.coords:
        if isinstance(coord, ir.Interval) and iterators:
            iterator = ir.CVar(iterators.pop(0))
            coords.append(
                ir.Point(iterator if coord.lo == ir.Int(0) else ir.Add(coord.lo, iterator))
            )
        else:
            coords.append(coord)
    return replace(access, coords=tuple(coords))


_Conditions = tuple[tuple[frozenset[Sym], str], ...]


@dataclass(slots=True)
class _Collect:
    facts: CollectiveFacts
    contracts: tuple[ir.Contract, ...]
    declared: dict[Sym, tuple[ir.Alloc | ir.BarrierAlloc, Where, ir.Block]]
    uses: dict[Sym, list[Use]]
    loads: tuple[ir.For, ...] = ()
    """The values from memory around the present statement."""

    def block(self, block: ir.Block, iterators: tuple[Sym, ...], known: _Conditions) -> None:
        for stmt in block:
            tiling = self.facts.scope.get(stmt)
            if tiling is not None:
                where = Where(tiling, iterators, known)
                if isinstance(stmt, ir.Alloc | ir.BarrierAlloc):
                    self.declared[stmt.name] = (stmt, where, block)
                for access, place, at in _accesses(stmt, where, self.facts):
                    span = access.span if access.span.line else stmt.span
                    found = self.uses.setdefault(access.name, [])
                    found.append(Use(stmt, access, place, span, at))
            self.visit_inside(stmt, iterators, known)

    def visit_inside(self, stmt: ir.Stmt, iterators: tuple[Sym, ...], known: _Conditions) -> None:
        match stmt:
            case ir.For():
                read = control_variables(stmt.lo) | control_variables(stmt.hi) | {stmt.iterator}
                found = [(read, in_range(stmt.iterator, stmt.lo, stmt.hi))]
                outer = self.loads
                if isinstance(stmt.mode, ir.Loaded):
                    found += map(_guard, load_conditions(stmt, outer, self.contracts))
                    self.loads = (*outer, stmt)
                self.block(stmt.body, (*iterators, stmt.iterator), (*known, *found))
                self.loads = outer
            case ir.If():
                self.block(stmt.body, iterators, (*known, _guard(stmt.condition)))
                self.block(stmt.orelse, iterators, (*known, _guard(ir.Not(stmt.condition))))
            case ir.DeviceFunction() | ir.Warps():
                self.block(stmt.body, iterators, known)
            case _:
                pass


def _guard(condition: ir.BExpr) -> tuple[frozenset[Sym], str]:
    return control_variables(condition), isl_cond(condition)


def _accesses(
    stmt: ir.Stmt, where: Where, facts: CollectiveFacts
) -> Iterator[tuple[ir.Access, Where, int | None]]:
    match stmt:
        case ir.Assign() | ir.Reduce():
            for access in reads(stmt.value):
                yield access, where, None
            yield stmt.target, where, None
        case ir.CallInstr():
            for at, argument in enumerate(stmt.arguments):
                if isinstance(argument, ir.Access):
                    loops = facts.operands.get((stmt, at))
                    yield distributed(argument, loops), _enter_loops(where, loops), at
            if stmt.trailing is not None:
                loops = facts.trailing.get(stmt)
                yield distributed(stmt.trailing, loops), _enter_loops(where, loops), None
        case ir.Arrive():
            for target in stmt.targets:
                yield target, where, None
        case ir.Await():
            yield stmt.barrier, where, None
        case _:
            return


def _enter_loops(where: Where, loops: Desugared | None) -> Where:
    if loops is None:
        return where
    return replace(where, tiling=loops.tiling, iterators=(*where.iterators, *loops.iterators))


def position_of(block: ir.Block, uses: tuple[Use, ...]) -> Mapping[ir.Stmt, int]:
    """For each use's statement, the position in `block` of the statement that contains it."""
    wanted = {use.stmt for use in uses}
    return {
        inner: at for at, stmt in enumerate(block) for inner in walk((stmt,)) if inner in wanted
    }


@dataclass(frozen=True, slots=True)
class Relation:
    """`[params] -> { [inputs] -> [outputs] : constraint }`, as text and as an ISL relation."""

    params: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constraint: str

    @property
    def map(self) -> isl.Map:
        """The ISL relation."""
        return _relation(self.params, self.inputs, self.outputs, self.constraint)

    @property
    def pairs(self) -> isl.Set:
        """Its pairs as a set with named dimensions."""
        return isl.set_of(self.params, (*self.inputs, *self.outputs), self.constraint)


@lru_cache(maxsize=1024)
def _relation(
    params: tuple[str, ...], inputs: tuple[str, ...], outputs: tuple[str, ...], constraint: str
) -> isl.Map:
    """Kept: several analyses ask of one use."""
    return isl.map_of(params, inputs, outputs, constraint)


def thread_iterators(use: Where, declared: Declared) -> frozenset[Sym]:
    """The thread iterators between the allocation and the use."""
    outside = {r.iterator for r in declared.where.tiling.ranges}
    return frozenset(r.iterator for r in use.tiling.ranges if r.iterator not in outside)


def relation(
    use: Use,
    declared: Declared,
    inputs: Mapping[str, int],
    thread: str | None,
    outputs: Mapping[str, int] | None = None,
    size: int = 1,
) -> Relation:
    """The relation between coordinates of a use and the units that make it.

    `inputs` and `outputs` name dimensions of the variable; `thread` names the unit, `size`
    threads a unit, as one more output, or as the only input where `outputs` are given.
    """
    outputs = outputs or {}
    dims = {**inputs, **outputs}
    coords = use.access.coords
    equations: list[str] = []
    read: set[Sym] = set()
    for name, d in dims.items():
        match coords[d]:
            case ir.Point(at):
                equations.append(f"{name} = {isl_expr(at)}")
                read |= control_variables(at)
            case ir.Interval(lo, hi):
                equations.append(f"{isl_expr(lo)} <= {name} and {name} < {isl_expr(hi)}")
                read |= control_variables(lo) | control_variables(hi)
    if thread is not None and size == 1:
        equations.append(use.where.tiling.threads_text(thread))
    elif thread is not None:
        executes = use.where.tiling.threads_text("t")
        equations.append(f"(exists t : {thread} = floor(t / {size}) and {executes})")
    domain, seen = _domain(use.where, frozenset(read), thread is not None)
    outside = frozenset(declared.where.iterators)
    inner = [identifier(s) for s in use.where.iterators if s in seen and s not in outside]
    params = sorted(identifier(s) for s in seen if s not in use.where.iterators or s in outside)
    body = conjunction([*equations, domain])
    bound = f"(exists {', '.join(inner)} : {body})" if inner else body
    unit = () if thread is None else (thread,)
    if outputs:
        return Relation(tuple(params), (*inputs, *unit), tuple(outputs), bound)
    return Relation(tuple(params), tuple(inputs), unit, bound)


def _domain(where: Where, read: frozenset[Sym], threads: bool) -> tuple[str, frozenset[Sym]]:
    """Returns the constraints on the iterators that are read, and on those that guard them.

    Guards that concern neither the index nor a thread iterator are left out: they say when
    the access happens, not by whom.
    """
    ranges = {r.iterator: r for r in where.tiling.ranges}
    seen = set(read) | (set(ranges) if threads else set())
    texts: list[str] = []
    waiting = list(where.conditions)
    while chosen := [c for c in waiting if c[0] & seen]:
        waiting = [c for c in waiting if not c[0] & seen]
        for variables, text in chosen:
            texts.append(text)
            seen |= variables
    for iterator in seen & set(ranges):
        r = ranges[iterator]
        texts.append(in_range(iterator, ir.Int(r.lo), ir.Int(r.lo + r.count)))
    return conjunction(texts), frozenset(seen)


# --- which dimensions are distributed -------------------------------------------------------


def distributed_dims(declared: Declared, uses: Sequence[Use], size: int) -> tuple[int, ...]:
    """The dimensions whose index, in some use, is a function of the unit and not constant.

    `size` is the number of threads of a unit.
    """
    rank = len(declared.declaration.shape)
    return tuple(d for d in range(rank) if any(_varies(u, declared, d, size) for u in uses))


def _varies(use: Use, declared: Declared, d: int, size: int) -> bool:
    coord = use.access.coords[d]
    if not isinstance(coord, ir.Point) or not _reads_threads(coord.at, use, declared):
        return False
    of_unit = relation(use, declared, {}, "u", {"e": d}, size).map
    alone = relation(use, declared, {}, None, {"e": d}).map
    return isl.is_function(of_unit) and not isl.is_function(alone)


def depends_on_thread(use: Use, declared: Declared, d: int) -> bool:
    """Tests whether the index of a dimension differs between threads at the same values of the
    other iterators."""
    coord = use.access.coords[d]
    exprs = [coord.at] if isinstance(coord, ir.Point) else [coord.lo, coord.hi]
    return any(_differs_by_thread(e, use, declared) for e in exprs)


def _differs_by_thread(expr: ir.CExpr, use: Use, declared: Declared) -> bool:
    if not _reads_threads(expr, use, declared):
        return False
    threads = thread_iterators(use.where, declared)
    others = sorted(identifier(v) for v in control_variables(expr) - threads)
    domain, seen = _domain(use.where, control_variables(expr), False)
    inner = sorted(identifier(v) for v in seen if identifier(v) not in others)
    text = conjunction([f"e = {isl_expr(expr)}", domain])
    return not isl.is_function(
        isl.map_of((), others, ("e",), f"(exists {', '.join(inner)} : {text})")
    )


def _reads_threads(expr: ir.CExpr, use: Use, declared: Declared) -> bool:
    return bool(control_variables(expr) & thread_iterators(use.where, declared))


# --- in words -------------------------------------------------------------------------------


def owners(found: Relation, point: Mapping[str, int], size: int, tiling: Tiling) -> str:
    """The units that own an index, in words."""
    at = {n: v for n, v in point.items() if n in (*found.params, *found.inputs)}
    free = isl.fix(found.pairs, at)
    for name in found.params:
        free = isl.drop_param(free, name)
    units = [u[-1] for u in isl.points(isl.project_onto(free, found.outputs))]
    return unit_names(units, size, tiling)


def unit_names(units: Sequence[int], size: int, tiling: Tiling) -> str:
    """Units of `size` threads, by their numbers, in words."""
    if size == tiling.block_dim and tiling.cluster_dim > 1:
        return f"CTA{'s' if len(units) > 1 else ''} {numbers(units)}"
    threads = [t for u in units for t in range(u * size, (u + 1) * size)]
    return thread_names(threads, tiling.block_dim, tiling.cluster_dim)


def element(declared: Declared, dims: Sequence[int], point: Mapping[str, int]) -> str:
    """An index in words: `D[1, _]`, with `_` for the dimensions that are not distributed."""
    name = declared.declaration.name.name
    rank = len(declared.declaration.shape)
    if rank == 0:
        return name
    shown = [str(point.get(f"i{d}", "_")) if d in dims else "_" for d in range(rank)]
    return f"{name}[{', '.join(shown)}]"


def instances_collide(declared: Declared, size: int) -> bool:
    """Tests whether two iterations that allocate the variable at once share a unit.

    They would share its one allocation.
    """
    tiling = declared.where.tiling
    inner = [r.iterator for r in tiling.ranges]
    if not inner:
        return False
    names = [identifier(s) for s in inner]
    text = (
        f"{tiling.domain_text()} and "
        f"(exists t : u = floor(t / {size}) and {tiling.threads_text('t')})"
    )
    return not isl.is_injective(isl.map_of((), names, ("u",), text))
