"""Bulk stores and additions: a tile leaves by TMA, from where it lies or from a copy."""

from __future__ import annotations

from campaigns.gpu.copies import mapped
from campaigns.gpu.making import Making, Node, fence
from campaigns.reach.parts import Step, Tile, Use, elsewhere, every


def stores(m: Making, step: Step) -> Use:
    """Makes a use that stores: it waits for the reads, or for the writes too, and at times reads
    the old contents."""
    reduce = m.chance(0.25)
    buffers = m.rng.choice((0, 1, 2, 2))
    m.note("bulk reduce" if reduce else "bulk store")
    y = step.array(m, "y")
    rows, cols = step.tile.rows, step.tile.cols
    window = mapped(m, y, 0, 1, 1, rows, cols)
    buf, cg = m.name("S"), m.name("cg")
    slot = f"{step.number} % 2" if buffers == 2 else "0"
    source = Tile(buf, rows, cols, slot) if buffers else step.tile
    name = "Sm90_tma_reduce" if reduce else "Sm90_tma_store"
    call = (
        f"{name}({window}[task, {step.number}, :, :], {source.whole}, rows={rows}, cols={cols}, "
        f"box=(1, 1, {rows}, {cols}), swizzle=0)"
    )

    def copy(i: str, j: str) -> list[Node]:
        return [f"{source.at(i, j)} = {step.tile.at(*elsewhere(m, step.tile, i, j))}"]

    declared: list[Node] = [f"{cg}: barrier @ CudaCommitGroup"]
    steps: list[Node] = []
    if buffers:
        declared.append(f"{buf}: f32[{buffers}, {rows}, {cols}] @ CudaSmemLinear")
        steps += [every(m, step.tile, copy), fence("cuda_in_order", "cuda_generic_and_async")]
    else:
        steps += [fence("cuda_in_order", "cuda_generic_and_async")]
    back = not reduce and m.chance(0.3)
    # At times who reads what was stored has waited for the wrong thing.
    written = m.chance(0.85 if back else 0.3)
    left = 1 if buffers == 2 and not back else 0
    timeline = "tma_to_gmem_async" if written else "tma_to_gmem_source"
    steps.append(call)
    if left == 0 and m.chance(0.3):
        declared = declared[1:]
        steps.append(fence(timeline, "cuda_in_order"))
        last: list[Node] = []
    else:
        steps += [f"Arrive({timeline}) >> {cg}", f"Await({cg}, cuda_in_order, {left})"]
        last = [f"Await({cg}, cuda_in_order, 0)"] if left else []
    if back:
        m.note("what was stored is read")
        z = step.array(m, "z")

        def again(i: str, j: str) -> list[Node]:
            row, column = elsewhere(m, step.tile, i, j)
            value = f"{y}[task, {step.number}, {row}, {column}]"
            return [f"{z}[task, {step.number}, {i}, {j}] = {value}"]

        steps.append(every(m, step.tile, again))
    return Use(steps, declared, [], last)
