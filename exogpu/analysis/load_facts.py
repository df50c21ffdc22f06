"""Relations between two values from memory (decision `loaded-values`): two loads of one element
have one value, and a contract on an array orders them, or makes them differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

from exogpu.diagnostics.errors import Diagnostic, Note
from exogpu.ir import nodes as ir
from exogpu.ir.affine import difference
from exogpu.ir.contracts import contract_text
from exogpu.ir.types import Sym
from exogpu.ir.walk import compare, walk, window_arguments


def load_conditions(
    load: ir.For, others: Iterable[ir.For], contracts: Sequence[ir.Contract]
) -> Iterator[ir.BExpr]:
    """Conditions on the value of a load and on those of others around it; not those that hold
    whatever the values, as of two elements next to each other."""
    assert isinstance(load.mode, ir.Loaded)
    source, value = load.mode.source, ir.CVar(load.iterator)
    of = {one.kind: one.least for one in contracts if one.array == source.name}
    for other in others:
        assert isinstance(other.mode, ir.Loaded)
        if other.mode.source.name != source.name:
            continue
        before = ir.CVar(other.iterator)
        at = [one.at for one in source.coords if isinstance(one, ir.Point)]
        there = [one.at for one in other.mode.source.coords if isinstance(one, ir.Point)]
        apart = [ir.Compare("!=", a, b) for a, b in zip(at, there, strict=True)]
        yield from _one_of(*apart, ir.Compare("==", value, before))
        for kind, least in of.items():
            below = [] if least is None else [ir.Compare("<", value, ir.Int(least))]
            match kind:
                case "monotone":
                    (i,), (j,) = at, there
                    if least is not None:
                        below.append(ir.Compare("<", before, ir.Int(least)))
                    last = ir.Compare("<=", value, before)
                    yield from _one_of(ir.Compare(">", i, j), *below, last)
                    last = ir.Compare(">=", value, before)
                    yield from _one_of(ir.Compare("<", i, j), *below, last)
                case "injective":
                    last = ir.Compare("!=", value, before)
                    for i, j in zip(at, there, strict=True):
                        yield from _one_of(ir.Compare("==", i, j), *below, last)


def _one_of(*conditions: ir.Compare) -> Iterator[ir.BExpr]:
    """Yields the disjunction of the conditions without those that surely fail; nothing if one
    before the last surely holds."""
    *others, last = conditions
    conclusion: ir.BExpr = last
    left: list[ir.BExpr] = []
    for one in others:
        apart = difference(one.left, one.right)
        if apart is None:
            left.append(one)
        elif compare(one.op, apart, 0):
            return
    yield reduce(ir.Or, left, conclusion)


# Values from memory are functions of the array and the element alone (decision `loaded-values`).
#
# So what `load_index` reads is a parameter, and no statement of the procedure writes it: not in
# the launch, and not in one that it may overlap or that comes before. Nor does one write what a
# contract is on: it would hold before that alone.


def check(proc: ir.Proc) -> Iterator[Diagnostic]:
    """The loads from arrays that change, in a procedure without windows and calls of procedures."""
    writers = {name: stmt for stmt in walk(proc.body) for name in _variables_written(stmt)}
    params = {p.name for p in proc.params if isinstance(p, ir.DataParam)}
    for one in proc.contracts:
        if one.array in writers:
            text = contract_text(one.kind, one.array.name, one.least)
            what = f"{text} is assumed of what this procedure writes"
            note = Note("written here", writers[one.array].span)
            yield Diagnostic("S332", what, one.span, "leave out the contract", (note,))
    for stmt in walk(proc.body):
        if not isinstance(stmt, ir.For) or not isinstance(stmt.mode, ir.Loaded):
            continue
        name = stmt.mode.source.name
        remedy = f"compute {name} in a procedure that is called before this one"
        if name not in params:
            what = f"{name} is allocated by this procedure, and has no contents but what it writes"
            yield Diagnostic("S332", what, stmt.span, remedy)
        elif name in writers:
            what = f"{stmt.iterator} is loaded from {name}, which this procedure writes"
            note = Note("written here", writers[name].span)
            yield Diagnostic("S332", what, stmt.span, remedy, (note,))


def _variables_written(stmt: ir.Stmt) -> Iterator[Sym]:
    match stmt:
        case ir.Assign() | ir.Reduce():
            yield stmt.target.name
        case ir.CallInstr():
            yield from (one.access.name for one in window_arguments(stmt) if one.is_written)
        case _:
            return
