"""wgmma between loops over fragments: A in registers or shared memory, B by rows or by columns."""

from __future__ import annotations

from typing import Final

from campaigns.gpu.making import Making, Node, fence
from campaigns.reach.schemes import device

FENCE: Final = fence("wgmma_fence_1", "wgmma_fence_2")


def products(m: Making) -> list[Node]:
    """A warpgroup multiplies K times into one accumulator, and changes it in between."""
    rng, registers = m.rng, m.chance(0.6)
    how = rng.choice(("tf32", "tf32", "f16", "mn_f16"))
    kind = "f32" if how == "tf32" else rng.choice(("f16", "bf16"))
    deep, wide = (8, 8) if how == "tf32" else (16, 16)
    m.note("wgmma", f"wgmma by {'columns' if how == 'mn_f16' else 'rows'}")
    m.note("A in registers" if registers else "A in shared memory")
    count = m.size("K")
    a, b, d, cg, k = (m.name(s) for s in ("A", "B", "D", "cg", "k"))
    x, y = m.array("x", kind, "M", 64, deep), m.array("x", kind, "M", wide, deep)
    z = m.array("y", "f32", "M", 64, wide)
    i, j, w, t = m.name("m"), m.name("n"), m.name("wg"), m.name("t")
    of_a = "Sm90_RmemMatrixA(64)" if registers else "Sm90_SmemSwizzled(32)"
    of_b = f"{kind}[1, {deep}, {wide}]" if how == "mn_f16" else f"{kind}[{wide}, {deep}]"
    loop = f"for {i}, {j} in fragment({d}):"
    row = f"{t} / {deep}, {t} % {deep}"
    there = f"{b}[0, {t} % {deep}, {t} / {deep}]" if how == "mn_f16" else f"{b}[{row}]"
    lanes = wide * deep
    fill: list[Node] = _filled(m, b, there, y, row, lanes)
    if not registers:
        fill.append(_rows(m, a, x, deep))
    begin: list[Node] = []
    if registers:
        begin.append((f"for {i}, {j} in fragment({a}):", [f"{a}[{i}, {j}] = {x}[task, {i}, {j}]"]))
    if m.chance(0.5):
        begin.append(f"Sm90_zero_scale_d({d}[:, :], M=64, N={wide})")
    else:
        begin.append((loop, [f"{d}[{i}, {j}] = 0.0"]))
    begin.append(FENCE)
    name = f"Sm90_wgmma_{'rs_' if registers else ''}{how}"
    options = f"N={wide}, swizzle=32" + ("" if how == "tf32" else f", dtype={kind}")
    tall = "" if registers else "M=64, "
    whole = f"{b}[:, :, :]" if how == "mn_f16" else f"{b}[:, :]"
    step: list[Node] = [
        f"{name}({d}[:, :], {a}[:, :], {whole}, {tall}{options})",
        f"Arrive(wgmma_async) >> {cg}",
    ]
    declared: list[Node] = []
    between = _between(m, d, a if registers and wide == deep else "", wide, declared, loop, i, j)
    ahead = 0 if between else rng.choice((0, 1))
    step.append(f"Await({cg}, cuda_in_order, {ahead})")
    step += between
    out: list[Node] = [f"Await({cg}, cuda_in_order, 0)"] if ahead else []
    out.append((loop, [f"{z}[task, {i}, {j}] = {d}[{i}, {j}]"]))
    group = (f"for {w} in cuda_threads(0, 1, unit=cuda_warpgroup):",)
    body: list[Node] = [
        f"{b}: {of_b} @ Sm90_SmemSwizzled(32)",
        f"{a}: {kind}[64, {deep}] @ {of_a}",
        f"{d}: f32[64, {wide}] @ Sm90_RmemMatrixD(64, {wide})",
        f"{cg}: barrier @ CudaCommitGroup",
        *declared,
        *fill,
        fence("cuda_in_order", "cuda_generic_and_async"),
        (group[0], [*begin, (f"for {k} in seq(0, {count}):", step), *out]),
        fence("cuda_in_order", "cuda_generic_and_async"),
    ]
    return device(128, body)


def _filled(m: Making, b: str, there: str, y: str, row: str, count: int) -> list[Node]:
    """The threads write B, an element each, or two."""
    t = row.partition(" ")[0]
    threads = min(count, 128)
    body = [f"{there} = {y}[task, {row}]"]
    if count == threads:
        return [(f"for {t} in cuda_threads(0, {threads}, unit=cuda_thread):", body)]
    e, u = m.name("e"), f"({t} + {threads} * %s)"
    body = [line.replace(f"{t} ", f"{u % e} ") for line in body]
    inner: Node = (f"for {e} in seq(0, {count // threads}):", body)
    return [(f"for {t} in cuda_threads(0, {threads}, unit=cuda_thread):", [inner])]


def _rows(m: Making, a: str, x: str, deep: int) -> Node:
    t, e = m.name("t"), m.name("e")
    inner: Node = (f"for {e} in seq(0, {deep}):", [f"{a}[{t}, {e}] = {x}[task, {t}, {e}]"])
    return (f"for {t} in cuda_threads(0, 64, unit=cuda_thread):", [inner])


def _between(
    m: Making, d: str, a: str, wide: int, declared: list[Node], loop: str, i: str, j: str
) -> list[Node]:
    """Makes the statements on the accumulator between two products; none, at times."""
    if m.chance(0.3):
        return []
    here, made = f"{d}[{i}, {j}]", list[Node]()
    # Small again, so that further products are exact.
    low = f"min(max({here}, -3.0), 3.0)"
    if m.chance(0.5):
        r = m.name("r")
        m.note("rows of an accumulator")
        declared.append(f"{r}: f32[64, 4] @ Sm90_RmemRows(64)")
        which = m.rng.choice(("max", "sum"))
        made.append(f"Sm90_row_{which}({r}[:, :], {d}[:, :], N={wide})")
        if m.chance(0.4):
            made.append((f"for {i} in fragment({r}):", [f"{r}[{i}] = 1.0 - {r}[{i}]"]))
        low = f"min(max({here} - {r}[{i}], -3.0), 3.0)"
    change: Node = f"{here} = {low}"
    made.append((loop, [(f"if {i} + {j} < 40:", [change])] if m.chance(0.3) else [change]))
    if a and m.chance(0.6):
        m.note("an accumulator becomes A")
        low = f"min(max({here}, -3.0), 3.0)"
        if wide == 16:
            made.append((loop, [f"{a}[{i}, {j}] = {low}"]))
        else:
            made.append((f"for {i}, {j} in fragment({a}):", [f"{a}[{i}, {j}] = 2.0"]))
    return [*made, FENCE]
