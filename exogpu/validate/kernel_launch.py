"""A launch as the product sees it: parameters, sizes and what the host has checked of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from exogpu.amir import nodes as amir
from exogpu.amir.export import unique_names
from exogpu.amir.walk import operations
from exogpu.codegen.runtime.manifest import Json
from exogpu.hw.timelines import ASYNC_PROXY, WGMMA
from exogpu.ir import nodes as ir
from exogpu.ir.types import BarrierMechanism, DataType, QualTL, Sym
from exogpu.ir.walk import control_variables
from exogpu.solvers import bitvectors as bv
from exogpu.validate import mbarriers
from exogpu.validate.control_flow import flow_of
from exogpu.validate.cursor import Cursor, Nest, Walker, first_frames, task_nest
from exogpu.validate.execute import Kernel
from exogpu.validate.mbarriers import ORDINARY, whole_warps
from exogpu.validate.memory import LARGEST_SHARED, Place, shared_places
from exogpu.validate.program_terms import condition_of, number_of
from exogpu.validate.ptx_reader import Entry
from exogpu.validate.refusals import refusal_of
from exogpu.validate.thread_state import State

MOST: Final = (1 << 31) - 1

_OPERATORS: Final = frozenset({"+", "-", "*", "//", "%"})


@dataclass(frozen=True, slots=True)
class Started:
    """A kernel, and a thread of it before the first instruction."""

    kernel: Kernel
    state: State


def start(
    program: amir.Program, body: amir.Block, step: Mapping[str, Any], described: Sequence[Any],
    entry: Entry,
) -> Started:  # fmt: skip
    """A thread before the first instruction; `described` are the parameters of the manifest."""
    if step["cluster"] != 1:
        raise refusal_of("clusters of several CTAs are not validated yet")
    if step.get("dependent"):
        raise refusal_of("dependent launches are not validated yet")
    block = int(step["block"])
    names = unique_names(program)
    sizes = {names[one.name]: bv.variable(names[one.name], 32) for one in program.params}
    env: dict[Sym, bv.Term] = {
        one.name: bv.extend(sizes[names[one.name]], 64, signed=True) for one in program.params
    }
    tid, cta, ctas = (bv.variable(name, 32) for name in ("tid", "ctaid", "nctaid"))
    smem = bv.variable("smem", 32)
    zero = bv.constant(0, 32)
    known = [
        bv.compare("ge", tid, zero),
        bv.compare("lt", tid, bv.constant(block, 32)),
        bv.compare("ge", cta, zero),
        bv.compare("lt", cta, ctas),
        bv.compare("le", smem, bv.constant(LARGEST_SHARED, 32), signed=False),
        bv.equal(smem & bv.constant(1023, 32), zero),
        *_size_facts(program, described, sizes, env),
        *_fitting(
            step["fits"], {name: bv.extend(one, 64, signed=True) for name, one in sizes.items()}
        ),
    ]
    nests, counted = _nests(body, env, known)
    places, parameters, maps, addresses = _parameters(program, names, step, described, entry, sizes)
    copies = _copies(body, maps)
    layout, limit = step.get("shared", []), int(step["shared_bytes"])
    rings = mbarriers.rings_of(program, body, step.get("mbarriers", []), limit)
    reserved = mbarriers.bytes_of_rings(step.get("mbarriers", []))
    places |= shared_places(program, body, layout, (reserved, limit))
    copied = {op: _bytes_of(op, places, env) for op in copies}
    first = bv.extend(cta, 64, signed=True)
    walker = Walker(
        bv.extend(tid, 64, signed=True),
        bv.extend(ctas, 64, signed=True),
        first,
        nests,
        rings,
        copied,
        _both_proxies(body, copies, places),
        _silence_test(program, places),
    )
    for nest in nests.values():
        furthest = nest.total + walker.ctas
        known += [
            bv.compare("ge", nest.total, bv.constant(1, 64)),
            bv.compare("le", furthest, bv.constant(MOST, 64)),
        ]
    specials = {
        "%tid.x": tid,
        "%ctaid.x": cta,
        "%nctaid.x": ctas,
        "%ntid.x": bv.constant(block, 32),
        **({} if entry.shared is None else {entry.shared: smem}),
        **addresses,
    }
    shown = {name: name for name in ("tid", "ctaid", "nctaid", *sizes)}
    kernel = Kernel(
        flow_of(entry),
        walker,
        places,
        {one.name: one.mechanism for one in program.variables if one.mechanism is not None},
        _read_only(places, body),
        block,
        parameters,
        specials,
        (*sizes.values(), *counted),
        maps,
        shown,
    )
    ghosts = {name: zero for ring in rings.values() for name in ring.ghosts}
    _check_groups(body, kernel.mechanisms)
    return Started(kernel, State({}, Cursor(first_frames(body), env, ghosts), tuple(known)))


def _size_facts(
    program: amir.Program,
    described: Sequence[Any],
    sizes: Mapping[str, bv.Term],
    env: Mapping[Sym, bv.Term],
) -> list[bv.Formula]:
    """The facts about sizes that a launch checks: least values, and preconditions."""
    found = []
    for one in described:
        if one["kind"] == "size":
            least = bv.constant(max(0, int(one.get("least", 0))), 32)
            found.append(bv.compare("ge", sizes[one["name"]], least))
    return [*found, *(condition_of(one, env) for one in program.preconditions)]


def _fitting(expressions: Sequence[Json], sizes: Mapping[str, bv.Term]) -> list[bv.Formula]:
    """The expressions that a launch has found to fit 32 bits, sums and multiples by constants.

    Of others nothing is assumed.
    """
    found = []
    for one in expressions:
        value = _linear(one, sizes)
        if value is not None:
            found += [
                bv.compare("le", value, bv.constant(MOST, 64)),
                bv.compare("ge", value, bv.constant(-MOST - 1, 64)),
            ]
    return found


def _linear(expr: Json, sizes: Mapping[str, bv.Term]) -> bv.Term | None:
    match expr:
        case bool() | None:
            return None
        case int():
            return bv.constant(expr, 64)
        case str():
            return sizes.get(expr)
        case [("+" | "-" | "*") as operator, left, right]:
            one, other = _linear(left, sizes), _linear(right, sizes)
            if one is None or other is None:
                return None
            if operator == "*" and bv.signed_value(one) is None and bv.signed_value(other) is None:
                return None
            return (
                one + other if operator == "+" else one - other if operator == "-" else one * other
            )
        case ["//", left, int(divisor)] if divisor > 0:
            one = _linear(left, sizes)
            return None if one is None else bv.floor_divided(one, divisor)
        case _:
            return None


def _nests(
    body: amir.Block, env: Mapping[Sym, bv.Term], known: list[bv.Formula]
) -> tuple[dict[amir.Loop, Nest], list[bv.Term]]:
    """The nests of tasks; what is known of their counts is added."""
    nests: dict[amir.Loop, Nest] = {}
    symbols: list[bv.Term] = []
    for op in body:
        if not isinstance(op, amir.Loop) or not op.tasks:
            continue
        loops, counts = task_nest(op), []
        for loop in loops:
            count = bv.variable(f"tasks {loop.iterator.name} {len(symbols)}", 32)
            symbols.append(count)
            counts.append(count)
            exact = bv.simplified(number_of(loop.hi, env) - number_of(loop.lo, env))
            known += [
                bv.equal(bv.extend(count, 64, signed=True), exact),
                bv.compare("ge", count, bv.constant(1, 32)),
            ]
        nests[op] = Nest(loops, Sym("task"), tuple(counts), {})
    if any(isinstance(op, amir.Loop) and op.tasks and op not in nests for op in operations(body)):
        inner = {loop for nest in nests.values() for loop in nest.loops}
        if any(
            isinstance(op, amir.Loop) and op.tasks and op not in inner for op in operations(body)
        ):
            raise refusal_of("a nest of tasks inside of another loop")
    return nests, symbols


def _parameters(
    program: amir.Program,
    names: Mapping[Sym, str],
    step: Mapping[str, Any],
    described: Sequence[Any],
    entry: Entry,
    sizes: Mapping[str, bv.Term],
) -> tuple[
    dict[Sym, Place],
    dict[str, bv.Term],
    dict[tuple[Sym, tuple[int, ...]], bv.Term],
    dict[str, bv.Term],
]:
    """The places of the arrays, the values of the entry's parameters, the addresses of tensor maps
    by array and box, and those of parameters by name."""
    arguments = step["arguments"]
    if len(arguments) != len(entry.parameters):
        raise refusal_of("the kernel has other parameters than the manifest")
    types = {one["name"]: one["dtype"] for one in described if one["kind"] == "data"}
    variables = {names[one.name]: one for one in program.variables}
    places: dict[Sym, Place] = {}
    values: dict[str, bv.Term] = {}
    maps: dict[tuple[Sym, tuple[int, ...]], bv.Term] = {}
    addresses: dict[str, bv.Term] = {}
    for argument, parameter in zip(arguments, entry.parameters, strict=True):
        if not isinstance(argument, str):
            variable = variables.get(argument["tensor"])
            if parameter.bytes != 128 or argument["swizzle"] or variable is None:
                raise refusal_of("a tensor map that is not validated yet", parameter.name)
            address = bv.variable(f"map {parameter.name}", 64)
            addresses[parameter.name] = address
            maps[variable.name, tuple(argument["box"])] = address
            continue
        if argument in sizes:
            if parameter.type not in ("u32", "s32", "b32") or parameter.bytes:
                raise refusal_of(f"the parameter {argument} has another type", parameter.name)
            values[parameter.name] = sizes[argument]
        elif argument in types and argument in variables and parameter.type == "u64":
            base = bv.variable(f"array {argument}", 64)
            variable = variables[argument]
            element = DataType(types[argument]).bytes
            places[variable.name] = Place("global", base, variable.shape, element)
            values[parameter.name] = base
        else:
            raise refusal_of(f"the parameter {argument} is not validated yet", parameter.name)
    return places, values, maps, addresses


def _copies(
    body: amir.Block, maps: Mapping[tuple[Sym, tuple[int, ...]], bv.Term]
) -> list[amir.Record]:
    """The records of targets of copies by TMA.  Raises NotValidatedError for other records of the
    async proxy, and for copies of what the kernel writes."""
    ops = [op for op in operations(body) if isinstance(op, amir.Record)]
    found = [op for op in ops if op.timeline is QualTL.TMA_S and op.mutate]
    tensors = {name for name, _ in maps}
    if any(op.access.name in tensors for op in ops if op.mutate):
        raise refusal_of("a tensor map of what the kernel writes is not validated yet")
    for op in ops:
        if op.timeline in ASYNC_PROXY | WGMMA and op.timeline is not QualTL.TMA_S:
            raise refusal_of(f"line {op.origin.span.line}: `{op.origin.text}`, not validated yet")
    for op in found:
        threads, trailing = op.origin.threads, op.trailing
        warp = threads is not None and whole_warps(threads) and threads.axes[-1].extent == 32
        if not op.convergent and not warp:
            raise refusal_of(f"line {op.origin.span.line}: a copy by other threads than a warp")
        if trailing is None or trailing.targets != (trailing.home,):
            raise refusal_of(f"line {op.origin.span.line}: a copy to several CTAs")
    return found


def _bytes_of(op: amir.Record, places: Mapping[Sym, Place], env: Mapping[Sym, bv.Term]) -> int:
    """The bytes that a copy brings."""
    count = 1
    for coord in op.access.coords:
        if isinstance(coord, ir.Interval):
            names = control_variables(coord.lo) | control_variables(coord.hi)
            some = {**{name: bv.variable(f"any {name.name}", 64) for name in names}, **env}
            length = bv.simplified(number_of(coord.hi, some) - number_of(coord.lo, some))
            count *= bv.signed_value(length) or 0
    return count * places[op.access.name].element


def _both_proxies(
    body: amir.Block, copies: Sequence[amir.Record], places: Mapping[Sym, Place]
) -> frozenset[Sym]:
    """The shared variables of a kernel in which both proxies access shared memory."""
    shared = frozenset(name for name, place in places.items() if place.space == "shared")
    ordinary = any(
        isinstance(op, amir.Record) and op.access.name in shared and op.timeline in ORDINARY
        for op in operations(body)
    )
    return shared if ordinary and copies else frozenset()


def _silence_test(
    program: amir.Program, places: Mapping[Sym, Place]
) -> Callable[[amir.Record], bool]:
    """Tests whether a record is of registers or of a barrier's own state: no access of memory."""
    silent = {
        one.name
        for one in program.variables
        if one.mechanism in (BarrierMechanism.COMMIT_GROUP, BarrierMechanism.MBARRIER)
        or (one.mechanism is None and not one.shared and one.task_local and not one.host)
    }

    def is_silent(op: amir.Record) -> bool:
        source = op.timeline is QualTL.TMA_S and not op.mutate
        return source or (op.access.name in silent and op.access.name not in places)

    return is_silent


def _read_only(places: Mapping[Sym, Place], body: amir.Block) -> frozenset[Sym]:
    written = {
        op.access.name for op in operations(body) if isinstance(op, amir.Record) and op.mutate
    }
    return frozenset(
        name for name, place in places.items() if place.space == "global" and name not in written
    )


def _check_groups(body: amir.Block, mechanisms: Mapping[Sym, BarrierMechanism]) -> None:
    """Refuses several variables of commit groups: PTX counts the groups of a thread together."""
    names = {
        op.home.name
        for op in operations(body)
        if isinstance(op, amir.Arrive) and QualTL.SM80 in op.pre
    }
    if len([one for one in names if mechanisms.get(one) is BarrierMechanism.COMMIT_GROUP]) > 1:
        raise refusal_of("commit groups of several variables are not validated yet")
