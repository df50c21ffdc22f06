"""Fills an operand of an instruction under trial, and shows it afterwards.

Every operand starts from random numbers, also one that is written: what the instruction must not
touch is seen too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from exogpu.ir.nodes import DataParam
from exogpu.ir.types import AccessMode, QualTL, Space
from exogpu.ir.walk import evaluate

# The text of a program as a tree of lines.

Node: TypeAlias = "str | tuple[str, list[Node]]"
"""A line, or a line that opens a block."""


def nested(headers: Sequence[str], body: list[Node]) -> list[Node]:
    """The body inside blocks, outermost first."""
    for header in reversed(headers):
        body = [(header, body)]
    return body


def lines(nodes: Sequence[Node], depth: int) -> list[str]:
    """The text, indented."""
    found = []
    for node in nodes:
        header, body = node if isinstance(node, tuple) else (node, None)
        found.append("    " * depth + header)
        if body is not None:
            found += lines(body, depth + 1) or ["    " * (depth + 1) + "pass"]
    return found


def fence(pre: str = "cuda_in_order", post: str = "cuda_in_order") -> str:
    return f"Fence({pre}, {post})"


@dataclass
class Trial:
    """A kernel in the making: one CTA, `units` times the instruction's unit."""

    block: int
    units: int
    parameters: list[str] = field(default_factory=list)
    maps: list[Node] = field(default_factory=list)
    shared: list[Node] = field(default_factory=list)
    """Declarations at the CTA."""
    fill: list[Node] = field(default_factory=list)
    """By all threads of the CTA; a Fence of the CTA follows."""
    before: list[Node] = field(default_factory=list)
    """In the scope of a unit `u`."""
    after: list[Node] = field(default_factory=list)
    drain: list[Node] = field(default_factory=list)
    """By all threads of the CTA, after a Fence of it."""

    def array(self, stem: str, dtype: str, shape: Sequence[int]) -> str:
        """A new parameter, with such an array for each unit of each task."""
        name = f"{stem}_{len(self.parameters)}"
        extents = ", ".join(map(str, ("M", self.units, *shape)))
        self.parameters.append(f"{name}: {dtype}[{extents}] @ CudaGmemLinear")
        return name

    def for_each_element(self, shape: Sequence[int], body: Callable[[str], Node]) -> Node:
        """A statement for every element of all units, by the threads of the CTA."""
        total = self.units
        for extent in shape:
            total *= extent
        at, index, rest = f"t + {self.block} * i", [], total
        for extent in (self.units, *shape):
            rest //= extent
            index.append(f"({at}) / {rest} % {extent}" if rest > 1 else f"({at}) % {extent}")
        inside = [body(", ".join(index))]
        if total % self.block:
            inside = [(f"if {at} < {total}:", inside)]
        loops = f"for i in seq(0, {-(-total // self.block)}):"
        return (f"for t in cuda_threads(0, {self.block}, unit=cuda_thread):", [(loops, inside)])

    def staged(self, stem: str, dtype: str, shape: Sequence[int], memory: str) -> str:
        """A new variable in shared memory, one for each unit, filled with random numbers."""
        name, source = f"{stem}_s", self.array(f"{stem}_in", dtype, shape)
        extents = ", ".join(map(str, (self.units, *shape)))
        self.shared.append(f"{name}: {dtype}[{extents}] @ {memory}")
        self.fill.append(
            self.for_each_element(shape, lambda at: f"{name}[{at}] = {source}[task, {at}]")
        )
        return name


@dataclass(frozen=True)
class Asked:
    """An operand as an instruction asks for it."""

    param: DataParam
    mode: AccessMode

    @property
    def name(self) -> str:
        return self.param.name.name

    @property
    def dtype(self) -> str:
        return self.param.dtype.value

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, of constants: `KeyError` if an extent depends on an argument."""
        return tuple(evaluate(extent, {}) for extent in self.param.shape)

    @property
    def is_written(self) -> bool:
        return self.mode is not AccessMode.READ


def whole_operand(shape: Sequence[int]) -> str:
    return ", ".join(":" for _ in shape)


def comma(*indices: str) -> str:
    """Joins the indices there are: of a scalar there are none."""
    return ", ".join(filter(None, indices))


def element(name: str, index: str) -> str:
    """A name, with an index if it has one."""
    return f"{name}[{index}]" if index else name


def place(trial: Trial, asked: Asked, where: str) -> str:
    """Makes the operand, and answers the argument; `where` is a kind of place that it may have."""
    memory = asked.param.memory
    if asked.param.window is not None:
        return _mapped(trial, asked, where)
    base = memory.name.partition("(")[0]
    if base in TILES:
        return TILES[base](trial, asked)
    if memory.space is Space.REGISTER:
        return _registers(trial, asked)
    if where == "global":
        name = trial.array(asked.name, asked.dtype, asked.shape)
        return f"{name}[{comma('task', 'u', whole_operand(asked.shape))}]"
    return _in_shared_memory(trial, asked)


def places(param: DataParam) -> tuple[str, ...]:
    """The kinds of place that a parameter's memory admits."""
    memory = param.memory
    if param.window is not None:
        return ("whole", "clipped")
    if memory.space is Space.REGISTER:
        return ("own",)
    if memory.abstract and memory.space is Space.GLOBAL:
        return ("global", "shared")
    return ("global",) if memory.space is Space.GLOBAL else ("shared",)


def _mapped(trial: Trial, asked: Asked, where: str) -> str:
    """A tensor map of an array as large as the box, or smaller, of which a unit has one."""
    window = asked.param.window
    assert window is not None
    rows, cols = asked.shape
    have = rows - 3 if where == "clipped" else rows
    name = f"{asked.name}_{len(trial.parameters)}"
    trial.parameters.append(
        f"{name}: {asked.dtype}[{trial.units} * M, {have}, {cols}] @ CudaGmemLinear"
    )
    trial.maps.append(f"{name}_map = {name}[:, :, :] @ {window.name}")
    return f"{name}_map[{trial.units} * task + u, 0:{rows}, 0:{cols}]"


def _in_shared_memory(trial: Trial, asked: Asked) -> str:
    memory = asked.param.memory
    kind = "CudaSmemLinear" if memory.abstract else memory.name
    operand = asked.param.operand
    pitch = operand.placement.pitch if operand is not None and operand.placement else 0
    width = pitch // asked.param.dtype.bytes
    if asked.shape and width > asked.shape[-1]:
        # The rows are wider than the operand, which is their last part.
        name = trial.staged(asked.name, asked.dtype, (*asked.shape[:-1], width), kind)
        return f"{name}[u, {whole_operand(asked.shape[:-1])}, {width - asked.shape[-1]}:{width}]"
    name = trial.staged(asked.name, asked.dtype, asked.shape, kind)
    if asked.is_written:
        out = trial.array(f"{asked.name}_out", asked.dtype, asked.shape)
        trial.drain.append(
            trial.for_each_element(asked.shape, lambda at: f"{out}[task, {at}] = {name}[{at}]")
        )
    return f"{name}[{comma('u', whole_operand(asked.shape))}]"


def _registers(trial: Trial, asked: Asked) -> str:
    """Declares the registers of a thread; or a vector of registers, one for each thread of a
    warp."""
    shape, name = asked.shape, f"{asked.name}_r"
    source = trial.array(f"{asked.name}_in", asked.dtype, shape)
    out = trial.array(f"{asked.name}_out", asked.dtype, shape) if asked.is_written else ""
    operand = asked.param.operand
    spread = operand is not None and bool(operand.units)
    lead = f"{trial.units}, " if spread else ""
    at = ", ".join(f"i{d}" for d in range(len(shape)))
    mine = f"{name}[u, {at}]" if spread else element(name, at)
    declared = element(f"{name}: {asked.dtype}", f"{lead}{', '.join(map(str, shape))}")
    (trial.shared if spread else trial.before).append(declared)

    def loops(body: str) -> Node:
        node: Node = body
        for d in reversed(range(len(shape))):
            over = f"seq(0, {shape[d]})"
            if spread and d == 0:
                over = f"cuda_threads(0, {shape[d]}, unit=cuda_thread)"
            node = (f"for i{d} in {over}:", [node])
        return node

    trial.before.append(loops(f"{mine} = {source}[{comma('task', 'u', at)}]"))
    if out:
        trial.after.append(loops(f"{out}[{comma('task', 'u', at)}] = {mine}"))
    return element(name, comma("u" if spread else "", whole_operand(shape)))


# --- register tiles -----------------------------------------------------------------------------


def _sm80_factor(trial: Trial, asked: Asked, which: str, rows: int, cols: int) -> str:
    """A tile of an operand of mma.sync with random numbers, by its load."""
    name = f"{asked.name}_{which}"
    source = trial.staged(name, asked.dtype, (rows, cols), "CudaSmemLinear")
    extent = "M" if which == "A" else "N"
    trial.before += [
        f"{name}: {asked.dtype}[{rows}, {cols}] @ Sm80_RmemMatrix{which}({rows}, {cols})",
        f"Sm80_load_{which}({name}[:, :], {source}[u, :, :], {extent}={rows}, K={cols}, "
        f"dtype={asked.dtype})",
    ]
    return name


def _sm80_multiply(kind: str, depth: int, d: str, a: str, b: str) -> str:
    if kind == "f32":
        return f"Sm80_mma_tf32({d}[:, :], {a}[:, :], {b}[:, :], K={depth})"
    return f"Sm80_mma_f16({d}[:, :], {a}[:, :], {b}[:, :], dtype={kind})"


def _sm80_operand(trial: Trial, asked: Asked) -> str:
    """A tile that is multiplied, if it is written, with another one: their product shows it."""
    if len(asked.shape) > 2:
        return _sm80_several(trial, asked)
    if asked.dtype in ("i8", "ui8"):
        return _by_fragment(trial, asked)
    which = asked.param.memory.name.partition("(")[0][-1]
    rows, cols = asked.shape
    mine = _sm80_factor(trial, asked, which, rows, cols)
    if asked.is_written:
        other = "B" if which == "A" else "A"
        beside = _sm80_factor(trial, asked, other, 8 if other == "B" else 16, cols)
        a, b = (mine, beside) if which == "A" else (beside, mine)
        d, out = f"{asked.name}_D", trial.array(f"{asked.name}_out", "f32", (16, 8))
        trial.after += [
            f"{d}: f32[16, 8] @ Sm80_RmemMatrixD(16, 8)",
            f"Sm80_zero_D({d}[:, :])",
            _sm80_multiply(asked.dtype, cols, d, a, b),
            f"Sm80_store_D(16, 8, {out}[task, u, :, :], {d}[:, :])",
        ]
    return f"{mine}[:, :]"


def _sm80_several(trial: Trial, asked: Asked) -> str:
    """Several tiles, which are filled and stored by their fragments."""
    count, rows, cols = asked.shape
    name, at = f"{asked.name}_tiles", "i, r, c"
    source = trial.array(f"{asked.name}_in", asked.dtype, asked.shape)

    def for_fragment(body: str) -> Node:
        over = f"for r, c in fragment({name}[i, :, :]):"
        return (f"for i in seq(0, {count}):", [(over, [body])])

    memory = asked.param.memory.name
    trial.before += [
        f"{name}: {asked.dtype}[{count}, {rows}, {cols}] @ {memory}",
        for_fragment(f"{name}[{at}] = {source}[task, u, {at}]"),
    ]
    if asked.is_written:
        out = trial.array(f"{asked.name}_out", asked.dtype, asked.shape)
        trial.after.append(for_fragment(f"{out}[task, u, {at}] = {name}[{at}]"))
    return f"{name}[:, :, :]"


def _sm80_accumulator(trial: Trial, asked: Asked) -> str:
    """A product of random tiles, stored afterwards."""
    if asked.dtype == "i32":
        return _by_fragment(trial, asked)
    rows, cols = asked.shape
    as_f32 = Asked(asked.param, AccessMode.READ)
    a = _sm80_factor(trial, as_f32, "A", rows, 8)
    b = _sm80_factor(trial, as_f32, "B", cols, 8)
    d = f"{asked.name}_D"
    trial.before += [
        f"{d}: {asked.dtype}[{rows}, {cols}] @ {asked.param.memory.name}",
        f"Sm80_zero_D({d}[:, :], M={rows}, N={cols})",
        _sm80_multiply("f32", 8, d, a, b),
    ]
    if asked.is_written:
        out = trial.array(f"{asked.name}_out", asked.dtype, (rows, cols))
        trial.after.append(f"Sm80_store_D({rows}, {cols}, {out}[task, u, :, :], {d}[:, :])")
    return f"{d}[:, :]"


def _sm90_operand(trial: Trial, asked: Asked) -> str:
    """A tile loaded from shared memory; if it is written, a product with it shows it."""
    rows, cols = asked.shape
    name, source = (
        f"{asked.name}_A",
        trial.staged(f"{asked.name}_A", asked.dtype, (rows, cols), "CudaSmemLinear"),
    )
    trial.before += [
        f"{name}: {asked.dtype}[{rows}, {cols}] @ {asked.param.memory.name}",
        f"Sm90_load_A({name}[:, :], {source}[u, :, :], K={cols}, dtype={asked.dtype})",
    ]
    if asked.is_written:
        other = trial.staged(f"{asked.name}_B", asked.dtype, (8, cols), "Sm90_SmemSwizzled(32)")
        d, out = f"{asked.name}_D", trial.array(f"{asked.name}_out", "f32", (64, 8))
        tf32 = asked.dtype == "f32"
        trial.after += [
            f"{d}: f32[64, 8] @ Sm90_RmemMatrixD(64, 8)",
            f"Sm90_zero_scale_d({d}[:, :], N=8)",
            fence("wgmma_fence_1", "wgmma_fence_2"),
            f"Sm90_wgmma_rs_{'tf32' if tf32 else 'f16'}({d}[:, :], {name}[:, :], {other}[u, :, :], "
            f"N=8, swizzle=32{'' if tf32 else f', dtype={asked.dtype}'})",
            fence("wgmma_async", "cuda_in_order"),
            f"Sm90_store_D(64, 8, {out}[task, u, :, :], {d}[:, :], N=8)",
        ]
    return f"{name}[:, :]"


def _sm90_accumulator(trial: Trial, asked: Asked) -> str:
    """A product of random tiles in shared memory; what only zeroes it is followed by another."""
    if asked.dtype == "i32":
        return _integer_accumulator(trial, asked)
    rows, cols = asked.shape
    a = trial.staged(f"{asked.name}_A", "f32", (rows, 8), "Sm90_SmemSwizzled(32)")
    b = trial.staged(f"{asked.name}_B", "f32", (cols, 8), "Sm90_SmemSwizzled(32)")
    d = f"{asked.name}_D"
    multiply = [
        fence("wgmma_fence_1", "wgmma_fence_2"),
        f"Sm90_wgmma_tf32({d}[:, :], {a}[u, :, :], {b}[u, :, :], M={rows}, N={cols}, swizzle=32)",
    ]
    trial.before += [
        f"{d}: f32[{rows}, {cols}] @ {asked.param.memory.name}",
        f"Sm90_zero_scale_d({d}[:, :], M={rows}, N={cols})",
        *multiply,
        fence("wgmma_async", "cuda_in_order"),
    ]
    operand = asked.param.operand
    if operand is not None and operand.initial is QualTL.WG_0:
        trial.after += [*multiply, fence("wgmma_async", "cuda_in_order")]
    if asked.is_written:
        out = trial.array(f"{asked.name}_out", "f32", (rows, cols))
        trial.after.append(
            f"Sm90_store_D({rows}, {cols}, {out}[task, u, :, :], {d}[:, :], M={rows}, N={cols})"
        )
    return f"{d}[:, :]"


def _by_fragment(trial: Trial, asked: Asked) -> str:
    """A tile of random numbers that a loop over its fragment fills, and stores if it is written."""
    name, extents = f"{asked.name}_tile", ", ".join(map(str, asked.shape))
    source = trial.array(f"{asked.name}_in", asked.dtype, asked.shape)
    trial.before += [
        f"{name}: {asked.dtype}[{extents}] @ {asked.param.memory.name}",
        (f"for r, c in fragment({name}):", [f"{name}[r, c] = {source}[task, u, r, c]"]),
    ]
    if asked.is_written:
        out = trial.array(f"{asked.name}_out", asked.dtype, asked.shape)
        stored = f"{out}[task, u, r, c] = {name}[r, c]"
        trial.after.append((f"for r, c in fragment({name}):", [stored]))
    return f"{name}[:, :]"


def _integer_accumulator(trial: Trial, asked: Asked) -> str:
    """Random integers; what only zeroes them is followed by a product of random tiles."""
    rows, cols = asked.shape
    d = f"{asked.name}_tile"
    operand = asked.param.operand
    if operand is not None and operand.initial is QualTL.WG_0:
        a = trial.staged(f"{asked.name}_A", "i8", (rows, 32), "Sm90_SmemSwizzled(32)")
        b = trial.staged(f"{asked.name}_B", "i8", (cols, 32), "Sm90_SmemSwizzled(32)")
        trial.after += [
            fence("wgmma_fence_1", "wgmma_fence_2"),
            f"Sm90_wgmma_i8({d}[:, :], {a}[u, :, :], {b}[u, :, :], M={rows}, N={cols}, swizzle=32)",
            fence("wgmma_async", "cuda_in_order"),
        ]
    return _by_fragment(trial, asked)


TILES: Final[Mapping[str, Callable[[Trial, Asked], str]]] = {
    "Sm80_RmemMatrixA": _sm80_operand,
    "Sm80_RmemMatrixB": _sm80_operand,
    "Sm80_RmemMatrixD": _sm80_accumulator,
    "Sm90_RmemMatrixA": _sm90_operand,
    "Sm90_RmemMatrixD": _sm90_accumulator,
    "Sm90_RmemRows": _by_fragment,
}
"""By the memory's name."""
