"""Loops over fragments: a tile goes through the registers of mma.sync."""

from __future__ import annotations

from campaigns.gpu.making import Making, Node
from campaigns.reach.parts import ACCUMULATOR, Step, Use

ROWS, COLS = ACCUMULATOR

PARTNERS = (
    ("{m}", "{n}"),
    ("{m}", "{n} + 1 - 2 * ({n} % 2)"),
    ("({m} + 8) % 16", "{n}"),
    ("({m} + 8) % 16", "{n} + 1 - 2 * ({n} % 2)"),
)
"""The elements that a thread holds besides an element of the accumulator."""


def fragments(m: Making, step: Step) -> Use:
    """A tile in an accumulator, changed by loops over it, and at times multiplied."""
    m.note("fragments")
    d, i, j = m.name("D"), m.name("m"), m.name("n")
    loop = f"for {i}, {j} in fragment({d}):"
    here = f"{d}[{i}, {j}]"
    declared: list[Node] = [f"{d}: f32[{ROWS}, {COLS}] @ Sm80_RmemMatrixD({ROWS}, {COLS})"]
    first: list[Node] = [(loop, [f"{here} = 0.0"])]
    steps: list[Node] = []
    if m.chance(0.5):
        steps += _product(m, step, d)
    else:
        steps.append((loop, [f"{here} = {here} + {step.tile.at(i, j)}"]))
    for _ in range(m.rng.choice((0, 1, 1, 2))):
        steps.append((loop, _changed(m, d, i, j)))
    out: list[Node]
    if m.chance(0.5):
        y, (row, column) = step.array(m, "y"), m.rng.choice(PARTNERS)
        value = f"{d}[{row.format(m=i, n=j)}, {column.format(m=i, n=j)}]"
        # Not needed: what a thread reads it has written itself.
        steps += ["Fence(cuda_in_order, cuda_in_order)"] if m.chance(0.3) else []
        steps.append((loop, [f"{y}[task, {step.number}, {i}, {j}] = {value}"]))
        out = []
    else:
        y = m.array("y", "f32", "M", ROWS, COLS)
        out = [(loop, [f"{y}[task, {i}, {j}] = {here}"])]
        if m.chance(0.3):
            out = [f"Sm80_store_D({ROWS}, {COLS}, {y}[task, :, :], {d}[:, :])"]
    if m.chance(0.25):
        staged, out = _staged(m, d, loop, i, j, out)
        declared += staged
    return Use(steps, declared, first, out)


def _changed(m: Making, d: str, i: str, j: str) -> list[Node]:
    row, column = (text.format(m=i, n=j) for text in m.rng.choice(PARTNERS))
    here, other = f"{d}[{i}, {j}]", f"{d}[{row}, {column}]"
    value = m.rng.choice(
        (f"max({here}, {other})", f"{here} - {other}", other, f"min({other}, 2.0)")
    )
    made: Node = f"{here} = {value}"
    return [(f"if {i} + {j} < {m.rng.choice((3, 8, 20))}:", [made])] if m.chance(0.4) else [made]


def _product(m: Making, step: Step, d: str) -> list[Node]:
    """D += A * B^T: A is the tile, B its first eight rows."""
    m.note("product of fragments")
    a, b, i, j = m.name("A"), m.name("B"), m.name("m"), m.name("k")
    tile = step.tile
    body: list[Node] = [
        f"{a}: f32[{ROWS}, {COLS}] @ Sm80_RmemMatrixA({ROWS}, {COLS})",
        f"{b}: f32[8, {COLS}] @ Sm80_RmemMatrixB(8, {COLS})",
        (f"for {i}, {j} in fragment({a}):", [f"{a}[{i}, {j}] = {tile.at(i, j)}"]),
        (f"for {i}, {j} in fragment({b}):", [f"{b}[{i}, {j}] = {tile.at(i, j)}"]),
        f"Sm80_mma_tf32({d}[:, :], {a}[:, :], {b}[:, :], K={COLS})",
    ]
    return body


def _staged(
    m: Making, d: str, loop: str, i: str, j: str, out: list[Node]
) -> tuple[list[Node], list[Node]]:
    """By way of shared memory, where the accumulator is turned upside down."""
    m.note("fragment by shared memory")
    buf = m.name("S")
    declared: list[Node] = [f"{buf}: f32[{ROWS}, {COLS}] @ CudaSmemLinear"]
    turned: list[Node] = [
        (loop, [f"{buf}[{i}, {j}] = {d}[{i}, {j}]"]),
        "Fence(cuda_in_order, cuda_in_order)",
        (loop, [f"{d}[{i}, {j}] = {buf}[15 - {i}, 7 - {j}]"]),
    ]
    return declared, turned + out
