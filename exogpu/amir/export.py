"""AMIR as JSON; the schema is documented in `docs/amir.md`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias, assert_never

from exogpu.amir import nodes as amir
from exogpu.amir.walk import operations
from exogpu.analysis.threadmap import ThreadMap
from exogpu.hw.timelines import SHORT, SHORT_NAME
from exogpu.ir.nodes import Access, Point
from exogpu.ir.render import is_free, isl_cond, isl_expr
from exogpu.ir.types import QualSet, Sym
from exogpu.ir.walk import control_variables

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"

SCHEMA = 4
"""Changes whenever a reader of an older schema could misread the output."""


Names: TypeAlias = Mapping[Sym, str]
"""Readable, and no two alike: `k`, and `k_2` for a second variable of that name."""


def to_json(program: amir.Program) -> dict[str, Json]:
    """The program as plain lists and dicts, ready for `json.dumps`; the same for equal sources."""
    names = unique_names(program)
    found: dict[str, Json] = {
        "schema": SCHEMA,
        "name": program.name,
        "policy": program.policy.value,
        "params": [{"name": names[p.name], "kind": p.kind} for p in program.params],
        "preconditions": [isl_cond(b, names) for b in program.preconditions],
        "variables": [_variable(v, names) for v in program.variables],
        "body": _block(program.body, (), names),
    }
    if program.contracts:
        found["contracts"] = [
            {
                "kind": one.kind,
                "array": names[one.array],
                **({} if one.least is None else {"least": one.least}),
            }
            for one in program.contracts
        ]
    if program.imported is not None:
        source = program.imported
        found["imported"] = {
            "compiler": source.compiler,
            "digest": source.digest,
            "assumptions": list(source.assumptions),
        }
    return found


def assumptions(program: amir.Program) -> tuple[str, ...]:
    """Lists what a proof of the program rests on besides its preconditions.

    These are contracts on the contents of arrays, and variables whose contents do not matter.
    """
    names = unique_names(program)
    ops = (op for op in operations(program.body) if isinstance(op, amir.Initialise) and op.uninit)
    return (*program.assumptions, *dict.fromkeys(f"uninit({names[op.access.name]})" for op in ops))


def unique_names(program: amir.Program, known: Names | None = None) -> Names:
    """A name for each parameter, variable and iterator, in the order of the program, after those
    that are known."""
    found: dict[Sym, str] = {**(known or {})}
    taken = set(found.values())
    for sym in _symbols(program):
        name, count = sym.name, 1
        while name in taken or not is_free(name):
            count += 1
            name = f"{sym.name}_{count}"
        if sym not in found:
            found[sym] = name
            taken.add(name)
    return found


def _symbols(program: amir.Program) -> Iterator[Sym]:
    yield from (p.name for p in program.params)
    yield from (v.name for v in program.variables)
    yield from (op.iterator for op in operations(program.body) if isinstance(op, amir.Loop))
    for op in operations(program.body):
        if isinstance(op, amir.Require):
            yield from (one.name for one in op.each)


def thread_map_text(threads: ThreadMap, iterators: tuple[Sym, ...], names: Names) -> str:
    """The map `{ [y...] -> [t] }` in ISL's notation, from the enclosing iterators that it reads."""
    used = {name for axis in threads.axes for name in control_variables(axis.offset)}
    domain = ", ".join(names[name] for name in iterators if name in used)
    terms = [
        f"{a.pitch} * ({isl_expr(a.offset, names)} + j{i})" for i, a in enumerate(threads.axes)
    ]
    bounds = [f"0 <= j{i} < {a.extent}" for i, a in enumerate(threads.axes)]
    inner = " and ".join([f"t = {' + '.join(terms) or '0'}", *bounds])
    if threads.axes:
        inner = f"exists {', '.join(f'j{i}' for i in range(len(terms)))} : {inner}"
    return f"{{ [{domain}] -> [t] : {inner} }}"


def _variable(variable: amir.Variable, names: Names) -> dict[str, Json]:
    found: dict[str, Json] = {
        "name": names[variable.name],
        "shape": [isl_expr(n, names) for n in variable.shape],
        "shared": variable.shared,
        "task_local": variable.task_local,
        "owner": variable.owner,
    }
    if variable.mechanism is not None:
        found["mechanism"] = variable.mechanism.value
        found["guard"] = None if variable.guard is None else names[variable.guard]
        found["depth"] = variable.depth
    if variable.host:
        found["host"] = True
    return found


def _block(block: amir.Block, iterators: tuple[Sym, ...], names: Names) -> list[Json]:
    return [_op(op, iterators, names) for op in block]


def _op(op: amir.Op, iterators: tuple[Sym, ...], names: Names) -> dict[str, Json]:
    origin = op.origin
    threads = origin.threads
    return {
        **_fields(op, iterators, names),
        "file": origin.span.file,
        "line": origin.span.line,
        "column": origin.span.column,
        "text": origin.text,
        "threads": None if threads is None else thread_map_text(threads, iterators, names),
    }


def _fields(op: amir.Op, iterators: tuple[Sym, ...], names: Names) -> dict[str, Json]:
    match op:
        case amir.Loop():
            return _loop(op, iterators, names)
        case amir.Guard():
            body = _block(op.body, iterators, names)
            return {"op": "Guard", "condition": isl_cond(op.condition, names), "body": body}
        case amir.IncTaskID():
            return {"op": "IncTaskID"}
        case amir.Alloc():
            return {"op": "Alloc", "variable": names[op.name]}
        case amir.Release():
            return {"op": "Release", "variable": names[op.name]}
        case amir.CheckBarrier():
            return {"op": "CheckBarrier", "variable": names[op.name]}
        case amir.Record():
            return _record(op, names)
        case amir.Check():
            return {
                "op": "CheckMutates" if op.mutates else "CheckReads",
                "level": op.level.name.lower(),
                "convergent": op.convergent,
                "access": _access(op.access, names),
                "timelines": _timelines(op.timelines),
                "free": op.free,
                "reads": op.reads,
            }
        case amir.Clear():
            name = "ClearMutates" if op.mutates else "ClearReads"
            return {"op": name, "access": _access(op.access, names)}
        case amir.Initialise():
            access = _access(op.access, names)
            return {"op": "Initialise", "access": access, "uninit": op.uninit}
        case amir.CheckInitialised():
            return {"op": "CheckInitialised", "access": _access(op.access, names)}
        case amir.Fence():
            return {
                "op": "Fence",
                "transitive": op.transitive,
                "joins": op.joins,
                "pre": _timelines(op.pre),
                "full": _timelines(op.full),
                "temporal": _timelines(op.temporal),
            }
        case amir.Arrive():
            return {
                "op": "Arrive",
                "transitive": op.transitive,
                "pre": _timelines(op.pre),
                "home": _access(op.home, names),
                "targets": [_access(target, names) for target in op.targets],
            }
        case amir.Await():
            return {
                "op": "Await",
                "barrier": _access(op.barrier, names),
                "full": _timelines(op.full),
                "temporal": _timelines(op.temporal),
                "n": op.n,
            }
        case amir.Require():
            return {
                "op": "Require",
                "kind": op.kind.value,
                "variable": None if op.variable is None else names[op.variable],
                "each": [
                    {
                        "name": names[e.name],
                        "lo": isl_expr(e.lo, names),
                        "hi": isl_expr(e.hi, names),
                    }
                    for e in op.each
                ],
                "conditions": [isl_cond(condition, names) for condition in op.conditions],
                "together": [
                    {"pitch": d.pitch, "extent": d.extent, "size": d.size} for d in op.together
                ],
            }
        case _:
            assert_never(op)


def _loop(op: amir.Loop, iterators: tuple[Sym, ...], names: Names) -> dict[str, Json]:
    found: dict[str, Json] = {
        "op": "Loop",
        "iterator": names[op.iterator],
        "lo": isl_expr(op.lo, names),
        "hi": isl_expr(op.hi, names),
        "mode": "tasks" if op.tasks else "threads" if op.threads else "seq",
        "body": _block(op.body, (*iterators, op.iterator), names),
    }
    if op.slot is not None:
        found |= {"mode": "slot", "slot": _access(op.slot, names)}
    if op.source is not None:
        found |= {"mode": "loaded", "source": _access(op.source, names)}
    return found


def _record(op: amir.Record, names: Names) -> dict[str, Json]:
    trailing: Json = None
    if op.trailing is not None:
        targets: list[Json] = [_access(target, names) for target in op.trailing.targets]
        trailing = {"home": _access(op.trailing.home, names), "targets": targets}
    return {
        "op": "RecordMutate" if op.mutate else "RecordRead",
        "level": op.level.name.lower(),
        "convergent": op.convergent,
        "access": _access(op.access, names),
        "timeline": None if op.timeline is None else SHORT_NAME[op.timeline],
        "atomic": _timelines(op.atomic),
        "trailing": trailing,
        "inside": op.inside,
    }


def _access(access: Access, names: Names) -> dict[str, Json]:
    coords: list[Json] = []
    for coord in access.coords:
        if isinstance(coord, Point):
            coords.append(isl_expr(coord.at, names))
        else:
            coords.append([isl_expr(coord.lo, names), isl_expr(coord.hi, names)])
    return {"variable": names[access.name], "coords": coords}


def _timelines(timelines: QualSet) -> list[Json]:
    return [name for name, timeline in SHORT.items() if timeline in timelines]


amir.EXPORTERS.append(to_json)
