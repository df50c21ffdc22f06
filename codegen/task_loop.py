"""A nest of `cuda_tasks` as a persistent loop: each cluster takes every n-th task.

Section "Persistent Kernels and cuda_tasks Loops" of the paper.  A task's number is decoded into
the loops' iterators, digit by digit; two loops that are walked together are one digit.
"""

from __future__ import annotations

from collections.abc import Sequence

from exogpu.codegen.control_text import c_control
from exogpu.codegen.device import Device, block, source, statement
from exogpu.codegen.names import Lines, braces
from exogpu.codegen.split_barriers import declare_counters
from exogpu.codegen.task_order import Grouped, Hilbert, Lexicographic, TaskNest, TaskOrder, pair_of
from exogpu.ir.nodes import Alloc, BarrierAlloc, For, Int
from exogpu.ir.types import Sym
from exogpu.ir.walk import walk


def task_loop(
    device: Device,
    nest: TaskNest,
    resident: Sequence[Alloc | BarrierAlloc],
    order: TaskOrder | None,
    cluster: int,
) -> Lines:
    """The loop over the tasks of this cluster of `cluster` CTAs, with what precedes it: what is
    `resident` stays from task to task."""
    control, names = device.control, device.names
    with names.scope():
        counts: Lines = []
        spelled = []
        for loop, count in zip(nest.loops, nest.counts, strict=True):
            control.iterate(loop.iterator, loop.lo, loop.hi)
            name = names.declare(Sym(f"tasks_{loop.iterator.name}"))
            counts.append(f"const int {name} = {c_control(count, control)};")
            spelled.append(name)
        decode = _decode(device, nest, spelled, *pair_of(nest, order, device.storage, cluster))
        declared = {
            stmt.name: declare_counters(device.barriers, stmt.name)
            for stmt in (*resident, *walk(nest.body))
            if isinstance(stmt, BarrierAlloc) and stmt.name in device.barriers.rings
        }
        places = []
        for stmt in resident:
            with names.recording() as read:
                places.append((stmt.name, statement(device, stmt), read))
        with names.recording() as used:
            body = block(device, nest.body)
        used |= {one for name, _, read in places if name in used for one in read}
        names.use(used)
        counters = [
            line
            for lines in declared.values()
            for counter, line in lines.items()
            if counter in used
        ]
        counters += [line for name, lines, _ in places if name in used for line in lines]
    first, step = "blockIdx.x", "gridDim.x"
    if cluster > 1:
        first, step = f"{first} / {cluster}", f"{step} / {cluster}"
    total = " * ".join(spelled)
    head = f"for (int task_number = {first}; task_number < {total}; task_number += {step})"
    return [*counts, *counters, source(nest.loops[0]), *braces(head, [*decode, *body])]


def _decode(
    device: Device,
    nest: TaskNest,
    counts: list[str],
    order: TaskOrder,
    pair: tuple[int, int] | None,
) -> Lines:
    """The iterators of task `task_number`."""
    rest = "task_number"
    lines: Lines = []
    digits = _digits(len(nest.loops), pair)
    for number, digit in reversed(list(enumerate(digits))):
        extent = " * ".join(counts[at] for at in digit)
        divisor = extent if len(digit) == 1 else f"({extent})"
        value = rest if number == 0 else f"{rest} % {divisor}"
        rest = f"{rest} / {divisor}"
        match digit:
            case (at,):
                lines[:0] = [_coordinate(device, nest.loops[at], value)]
            case (row, column):
                tile = device.names.declare(Sym("tile"))
                where = _walk(order, value, counts[row], counts[column])
                lines[:0] = [
                    f"const int2 {tile} = {where};",
                    _coordinate(device, nest.loops[row], f"{tile}.x"),
                    _coordinate(device, nest.loops[column], f"{tile}.y"),
                ]
            case _:
                raise AssertionError(digit)
    return lines


def _digits(loops: int, pair: tuple[int, int] | None) -> list[tuple[int, ...]]:
    """The loops that each digit chooses iterations of: one a digit, but a pair makes one."""
    return [
        pair if pair and at == pair[0] else (at,)
        for at in range(loops)
        if not pair or at != pair[1]
    ]


def _walk(order: TaskOrder, number: str, rows: str, columns: str) -> str:
    match order:
        case Grouped():
            return f"grouped_tile({number}, {rows}, {columns}, {order.rows})"
        case Hilbert():
            return f"hilbert_tile({number}, {rows}, {columns})"
        case Lexicographic():
            raise AssertionError("no two loops are walked together")


def _coordinate(device: Device, loop: For, value: str) -> str:
    name = device.names.declare(loop.iterator)
    if isinstance(loop.lo, Int) and loop.lo.value >= 0:
        device.control.nonnegative.add(loop.iterator)
    if loop.lo != Int(0):
        value = f"{c_control(loop.lo, device.control)} + {value}"
    return f"[[maybe_unused]] const int {name} = {value};"
