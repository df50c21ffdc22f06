"""Pieces with matrix products: mma.sync, wgmma with A in shared memory or registers."""

from __future__ import annotations

from campaigns.gpu.copies import mapped
from campaigns.gpu.making import BYTES, Launch, Making, Node, fence
from campaigns.gpu.units import elements, loop
from campaigns.gpu.values import of_bytes


def mma_sync(m: Making, k: Launch) -> list[Node]:
    """Warps multiply tiles out of shared memory, some at a time, and store them in part."""
    half = m.chance(0.15)
    kind = m.rng.choice(["f16", "bf16"]) if half else "f32"
    step = 16 if half else m.rng.choice([4, 8, 8])
    m.note("mma.sync", f"mma.sync {kind}", "register tiles")
    warps, cols, depth = k.block // 32, m.rng.choice([1, 2, 3]), m.rng.choice([1, 2])
    a_rows, b_rows, width = 16 * warps, 8 * cols, step * depth
    x, y = m.array("x", kind, k.rows, a_rows, width), m.array("x", kind, k.rows, b_rows, width)
    rows, columns = (16, 8) if m.chance(0.6) else (m.rng.randint(1, 16), m.rng.randint(1, 8))
    z = m.array("y", "f32", k.rows, a_rows, b_rows)
    a, b, ra, rb, d = (m.name(s) for s in ("As", "Bs", "Ar", "Br", "D"))
    w, j, kk = m.name("w"), m.name("j"), m.name("kk")
    operands = f"{d}[{w}, {j}, :, :], {ra}[:, :], {rb}[:, :]"
    multiply = f"Sm80_mma_tf32({operands}, K={step})"
    if half:
        multiply = f"Sm80_mma_f16({operands}, dtype={kind})"
    window = f"{step} * {kk} : {step} * {kk} + {step}"

    def fill(buf: str, source: str):  # noqa: ANN202
        return lambda e: [
            f"{buf}[({e}) / {width}, ({e}) % {width}] = "
            f"{source}[{k.row}, ({e}) / {width}, ({e}) % {width}]"
        ]

    return [
        f"{a}: {kind}[{a_rows}, {width}] @ CudaSmemLinear",
        f"{b}: {kind}[{b_rows}, {width}] @ CudaSmemLinear",
        f"{d}: f32[{warps}, {cols}, 16, 8] @ Sm80_RmemMatrixD(16, 8)",
        *elements(m, k.block, a_rows * width, fill(a, x)),
        *elements(m, k.block, b_rows * width, fill(b, y)),
        fence(),
        (
            loop(w, warps, "cuda_warp"),
            [
                (f"for {j} in seq(0, {cols}):", [f"Sm80_zero_D({d}[{w}, {j}, :, :])"]),
                (
                    f"for {kk} in seq(0, {depth}):",
                    [
                        f"{ra}: {kind}[16, {step}] @ Sm80_RmemMatrixA(16, {step})",
                        f"Sm80_load_A({ra}[:, :], {a}[16 * {w} : 16 * {w} + 16, {window}], "
                        f"K={step}, dtype={kind})",
                        (
                            f"for {j} in seq(0, {cols}):",
                            [
                                f"{rb}: {kind}[8, {step}] @ Sm80_RmemMatrixB(8, {step})",
                                f"Sm80_load_B({rb}[:, :], {b}[8 * {j} : 8 * {j} + 8, {window}], "
                                f"K={step}, dtype={kind})",
                                multiply,
                            ],
                        ),
                    ],
                ),
                (
                    f"for {j} in seq(0, {cols}):",
                    [
                        f"Sm80_store_D({rows}, {columns}, {z}[{k.row}, 16 * {w} : 16 * {w} + 16, "
                        f"8 * {j} : 8 * {j} + 8], {d}[{w}, {j}, :, :])"
                    ],
                ),
            ],
        ),
        fence(),
    ]


def wgmma(m: Making, k: Launch) -> list[Node]:
    """One tile by the first warpgroup: TMA brings the operands, or A comes by registers."""
    if k.block < 128:
        return mma_sync(m, k)
    kind = of_bytes(m, ("f32", "f32", "f16", "bf16"))
    swizzle = m.rng.choice([32, 64, 128])
    width, deep = swizzle // BYTES[kind], 32 // BYTES[kind]
    registers = m.chance(0.35)
    tall = 64 if registers else m.rng.choice([64, 64, 128])
    wide = m.rng.choice([8, 16, 24, 32, 64, 96, 128])
    m.note("wgmma RS" if registers else "wgmma SS", f"wgmma swizzle {swizzle}", "register tiles")
    m.note(f"wgmma {kind}", "TMA load", "mbarrier")
    size = m.size("K")
    x = m.array("x", kind, k.rows, size, tall, width)
    y = m.array("x", kind, k.rows, size, wide, width)
    z = m.array("y", "f32", k.rows, tall, wide)
    a, b, d, ra, full, cg = (m.name(s) for s in ("As", "Bs", "D", "Ar", "full", "cg"))
    i, w, g, kk = m.name("k"), m.name("w"), m.name("g"), m.name("kk")
    steps = width // deep
    a_memory = f"Sm90_SmemSwizzled({swizzle})" if not registers else "CudaSmemLinear"
    maps = [(b, mapped(m, y, swizzle, 1, 1, wide, width), wide, swizzle)]
    if not registers:
        maps.append((a, mapped(m, x, swizzle, 1, 1, tall, width), tall, swizzle))
    loads: list[Node] = [
        f"Sm90_tma_load({buf}[:, :], {window}[{k.row}, {i}, 0:{rows}, 0:{width}], rows={rows}, "
        f"cols={width}, box=(1, 1, {rows}, {width}), swizzle={sw}, dtype={kind}) >> {full}"
        for buf, window, rows, sw in maps
    ]
    name = "tf32" if kind == "f32" else "f16"
    types = "" if kind == "f32" else f", dtype={kind}"
    at = f"{deep} * {kk} : {deep} * {kk} + {deep}"
    zero: list[Node] = [f"Sm90_zero_scale_d({d}[:, :], M={tall}, N={wide})"]
    order = fence("wgmma_fence_1", "wgmma_fence_2")
    if registers:
        products: list[Node] = [
            (
                f"for {kk} in seq(0, {steps}):",
                [
                    f"{ra}: {kind}[64, {deep}] @ Sm90_RmemMatrixA(64)",
                    f"Sm90_load_A({ra}[:, :], {a}[:, {at}], K={deep}, dtype={kind})",
                    order,
                    f"Sm90_wgmma_rs_{name}({d}[:, :], {ra}[:, :], {b}[:, {at}], N={wide}, "
                    f"swizzle={swizzle}{types})",
                    fence("wgmma_async", "cuda_in_order"),
                ],
            ),
        ]
    else:
        products = [
            (
                f"for {kk} in seq(0, {steps}):",
                [
                    f"Sm90_wgmma_{name}({d}[:, :], {a}[:, {at}], {b}[:, {at}], M={tall}, N={wide}, "
                    f"swizzle={swizzle}{types})"
                ],
            ),
            f"Arrive(wgmma_async) >> {cg}",
            f"Await({cg}, cuda_in_order, 0)",
        ]
    rows, columns = (
        (tall, wide) if m.chance(0.6) else (m.rng.randint(1, tall), m.rng.randint(1, wide))
    )
    store = f"Sm90_store_D({rows}, {columns}, {z}[{k.row}, :, :], {d}[:, :], M={tall}, N={wide})"
    finish: list[Node] = [store]
    extra: list[Node] = []
    if wide % 16 == 0 and m.chance(0.35):
        extra, finish = _staged(m, k, z, d, tall, wide)
    elsewhere = f"with CudaWarps({k.block // 32 - 4}, {k.block // 32}):"
    group = (
        (lambda body: (loop(g, 1, "cuda_warpgroup"), body))
        if k.block % 128 or m.chance(0.6)
        else (lambda body: (elsewhere, body))
    )
    fill: list[Node] = []
    if registers:
        fill = elements(
            m,
            k.block,
            tall * width,
            lambda e: [
                f"{a}[({e}) / {width}, ({e}) % {width}] = "
                f"{x}[{k.row}, {i}, ({e}) / {width}, ({e}) % {width}]"
            ],
        )
        fill = [*fill, fence()]
    return [
        f"{a}: {kind}[{tall}, {width}] @ {a_memory}",
        f"{b}: {kind}[{wide}, {width}] @ Sm90_SmemSwizzled({swizzle})",
        f"{d}: f32[{tall}, {wide}] @ Sm90_RmemMatrixD({tall}, {wide})",
        f"{full}: barrier @ CudaMbarrier",
        *([] if registers else [f"{cg}: barrier @ CudaCommitGroup"]),
        group([*zero, order]),
        (
            f"for {i} in seq(0, {size}):",
            [
                (loop(w, 1, "cuda_warp"), [*loads, f"Arrive(cuda_temporal) >> {full}"]),
                *fill,
                f"Await({full}, cuda_generic_and_async, ~0)",
                group(products),
                fence("cuda_in_order", "cuda_generic_and_async"),
            ],
        ),
        *extra,
        *([group(finish)] if not extra else finish_staged(m, group, finish)),
        fence("cuda_in_order", "cuda_generic_and_async"),
    ]


def _staged(
    m: Making, k: Launch, z: str, d: str, tall: int, wide: int
) -> tuple[list[Node], list[Node]]:
    """An accumulator by way of shared memory: its declaration, and the stage and TMA store."""
    m.note("accumulator staged for TMA", "TMA store")
    buf, w = m.name("Cs"), m.name("w")
    box = min(tall, 64)
    window = mapped(m, z, 0, 1, box, wide)
    stores: list[Node] = [
        f"Sm90_tma_store({window}[{k.row}, {lo}:{lo + box}, 0:{wide}], {buf}[{lo}:{lo + box}, :], "
        f"rows={box}, cols={wide}, box=(1, {box}, {wide}), swizzle=0, dtype=f32)"
        for lo in range(0, tall, box)
    ]
    return (
        [f"{buf}: f32[{tall}, {wide}] @ CudaSmemLinear"],
        [
            f"Sm90_stage_D({buf}[:, :], {d}[:, :], M={tall}, N={wide})",
            (loop(w, 1, "cuda_warp"), [*stores, fence("tma_to_gmem_async", "cuda_in_order")]),
        ],
    )


def finish_staged(m: Making, group, finish: list[Node]) -> list[Node]:  # noqa: ANN001
    """The warpgroup stages, all threads meet, one warp stores."""
    stage, store = finish
    return [group([stage]), fence("cuda_in_order", "cuda_generic_and_async"), store]
