"""Pieces with asynchronous copies: cp.async by groups and by mbarriers, TMA both ways."""

from __future__ import annotations

from campaigns.gpu.making import BYTES, Launch, Making, Node, fence, nested
from campaigns.gpu.staging import permuted
from campaigns.gpu.units import elements, loop, spread
from campaigns.gpu.values import expression, of_bytes

TMA_TYPES = ("f32", "f32", "f16", "bf16", "f64", "i32", "i64", "i8", "ui8", "ui16", "ui64")
SWIZZLES = (0, 32, 64, 128)


def cp_async(m: Making, k: Launch) -> list[Node]:
    """A double-buffered loop of cp.async, waited for by groups, a Fence or an mbarrier."""
    kind = of_bytes(m, ("f32", "f16", "bf16", "i32", "f64", "ui8"))
    n = m.rng.choice([n for n in (1, 2, 4, 8, 16) if n * BYTES[kind] in (4, 8, 16)])
    how = m.rng.choice(["groups", "groups", "fence", "mbarrier"])
    m.note("cp.async", f"cp.async by {how}", f"cp.async of {n * BYTES[kind]} bytes")
    total, size = k.block * n, m.size("K")
    x, y = m.array("x", kind, k.rows, size, total), m.array("y", kind, k.rows, size, total)
    buf, done, i, t = m.name("buf"), m.name("done"), m.name("k"), m.name("t")
    zfill = m.chance(0.3)
    s = spread(m, k.block, whole=True)
    valid = m.rng.randint(0, n)

    def copy(at: str, step: str, slot: str) -> str:
        window = f"{n} * ({at}) : {n} * ({at}) + {n}"
        name, first = "Sm80_cp_async_copy", ""
        if zfill:
            m.note("cp.async with zero fill")
            name, first = "Sm80_cp_async_copy_zfill", f"{valid}, "
        return (
            f"{name}({first}{buf}[{slot}, {window}], {x}[{k.row}, {step}, {window}], "
            f"n={n}, dtype={kind})"
        )

    def read(step: str, slot: str) -> list[Node]:
        return elements(
            m,
            k.block,
            total,
            lambda e: [
                f"{y}[{k.row}, {step}, {e}] = "
                + expression(m, kind, f"{buf}[{slot}, {permuted(m, e, total)}]")
            ],
        )

    thread = loop(t, k.block, "cuda_thread")
    if how == "groups":
        ahead = m.rng.choice([1, 1, 2, 3])
        depth = ahead + 1
        m.note(f"cp.async {ahead} ahead")
        return [
            f"{buf}: {kind}[{depth}, {total}] @ CudaSmemLinear",
            f"{done}: barrier[{k.block}] @ CudaCommitGroup",
            (
                f"for {i} in seq(0, {size} + {ahead}):",
                [
                    (
                        thread,
                        [
                            (f"if {i} < {size}:", [copy(t, i, f"{i} % {depth}")]),
                            f"Arrive(Sm80_cp_async) >> {done}[{t}]",
                        ],
                    ),
                    (
                        f"if {i} >= {ahead}:",
                        [
                            (thread, [f"Await({done}[{t}], cuda_in_order, {ahead})"]),
                            fence(),
                            *read(f"{i} - {ahead}", f"({i} - {ahead}) % {depth}"),
                        ],
                    ),
                    fence(),
                ],
            ),
            (thread, [f"Await({done}[{t}], cuda_in_order, 0)"]),
            fence(),
        ]
    if how == "fence":
        # All CTAs of a cluster must be done with a variable that ends: there it outlives the loop.
        declared: list[Node] = [f"{buf}: {kind}[1, {total}] @ CudaSmemLinear"]
        return [
            *(declared if k.cluster > 1 else []),
            (
                f"for {i} in seq(0, {size}):",
                [
                    *(declared if k.cluster == 1 else []),
                    *nested(s.headers, [copy(s.number, i, "0")]),
                    fence(m.rng.choice(["Sm80_cp_async", "Sm80_generic"]), "cuda_in_order"),
                    *read(i, "0"),
                    fence(),
                ],
            ),
        ]
    return [
        f"{buf}: {kind}[1, {total}] @ CudaSmemLinear",
        f"{done}: barrier @ CudaMbarrier",
        (
            f"for {i} in seq(0, {size}):",
            [
                *nested(s.headers, [copy(s.number, i, "0")]),
                f"Arrive({m.rng.choice(['Sm80_cp_async', 'Sm80_generic'])}) >> {done}",
                f"Await({done}, cuda_in_order, ~0)",
                *read(i, "0"),
                fence(),
            ],
        ),
    ]


def tile(m: Making, kinds: tuple[str, ...] = TMA_TYPES) -> tuple[str, int, int, int]:
    """Type, swizzle, rows and columns of a tile that TMA can copy."""
    kind, swizzle = of_bytes(m, kinds), m.rng.choice(SWIZZLES)
    m.note(f"swizzle {swizzle}")
    cols = (swizzle or m.rng.choice([16, 32, 64, 128])) // BYTES[kind]
    rows = m.rng.choice([8, 8, 16, 24, 32])
    while rows * cols * BYTES[kind] % 128:
        rows += 8
    return kind, swizzle, rows, cols


def staged(swizzle: int) -> str:
    return f"Sm90_SmemSwizzled({swizzle})" if swizzle else "CudaSmemLinear"


def mapped(m: Making, array: str, swizzle: int, *box: int) -> str:
    """A tensor map of an array of as many dimensions as the box."""
    name, every = m.name("map"), ", ".join(":" for _ in box)
    sides = ", ".join(map(str, box))
    m.maps.append(f"{name} = {array}[{every}] @ Sm90_tensorMap({swizzle}, {sides})")
    return name


def tma_load(m: Making, k: Launch) -> list[Node]:
    """A warp loads tiles in a loop; threads read them."""
    kind, swizzle, rows, cols = tile(m)
    m.note("TMA load", "mbarrier")
    ragged = m.chance(0.3)  # the box sticks out of the tensor: zeros
    have = rows - m.rng.randint(1, rows - 1) if ragged else rows
    if ragged:
        m.note("TMA box beyond the tensor")
    size = m.size("K")
    x = m.array("x", kind, k.rows, size, have, cols)
    y = m.array("y", kind, k.rows, size, rows, cols)
    buf, full, i, w = m.name("buf"), m.name("full"), m.name("k"), m.name("w")
    window = mapped(m, x, swizzle, 1, 1, rows, cols)
    total = rows * cols

    def read(e: str) -> list[Node]:
        value = expression(m, kind, f"{buf}[({e}) / {cols}, ({e}) % {cols}]")
        return [f"{y}[{k.row}, {i}, ({e}) / {cols}, ({e}) % {cols}] = {value}"]

    return [
        f"{buf}: {kind}[{rows}, {cols}] @ {staged(swizzle)}",
        f"{full}: barrier @ CudaMbarrier",
        (
            f"for {i} in seq(0, {size}):",
            [
                (
                    loop(w, 1, "cuda_warp"),
                    [
                        f"Sm90_tma_load({buf}[:, :], {window}[{k.row}, {i}, 0:{rows}, 0:{cols}], "
                        f"rows={rows}, cols={cols}, box=(1, 1, {rows}, {cols}), "
                        f"swizzle={swizzle}, dtype={kind}) >> {full}",
                        f"Arrive(cuda_temporal) >> {full}",
                    ],
                ),
                f"Await({full}, {m.rng.choice(['cuda_generic_and_async', 'cuda_in_order'])}, ~0)",
                *elements(m, k.block, total, read),
                fence("cuda_in_order", "cuda_generic_and_async"),
            ],
        ),
    ]


def tma_store(m: Making, k: Launch) -> list[Node]:
    """Threads fill a tile, and a warp stores it, or adds it to what is there."""
    reduce = m.chance(0.4)
    kinds = ("f32", "f32", "f16", "bf16", "i32", "ui64") if reduce else TMA_TYPES
    kind, swizzle, rows, cols = tile(m, kinds)
    m.note("TMA reduce" if reduce else "TMA store")
    ragged = m.chance(0.3)
    have = rows - m.rng.randint(1, rows - 1) if ragged else rows
    if ragged:
        m.note("TMA box beyond the tensor")
    x = m.array("x", kind, k.rows, rows, cols)
    y = m.array("y", kind, k.rows, have, cols)
    buf, cg, w = m.name("buf"), m.name("cg"), m.name("w")
    window = mapped(m, y, swizzle, 1, rows, cols)

    def fill(e: str) -> list[Node]:
        value = expression(m, kind, f"{x}[{k.row}, ({e}) / {cols}, ({e}) % {cols}]")
        return [f"{buf}[({e}) / {cols}, ({e}) % {cols}] = {value}"]

    name = "Sm90_tma_reduce" if reduce else "Sm90_tma_store"
    call = (
        f"{name}({window}[{k.row}, 0:{rows}, 0:{cols}], {buf}[:, :], rows={rows}, cols={cols}, "
        f"box=(1, {rows}, {cols}), swizzle={swizzle}, dtype={kind})"
    )
    wait: list[Node] = [
        f"Arrive(tma_to_gmem_async) >> {cg}",
        f"Await({cg}, {m.rng.choice(['cuda_in_order', 'cuda_temporal'])}, 0)",
    ]
    if m.chance(0.3):
        wait = [fence("tma_to_gmem_async", "cuda_in_order")]
    grouped = len(wait) == 2
    return [
        f"{buf}: {kind}[{rows}, {cols}] @ {staged(swizzle)}",
        *elements(m, k.block, rows * cols, fill),
        fence("cuda_in_order", "cuda_generic_and_async"),
        (
            loop(w, 1, "cuda_warp"),
            [*([f"{cg}: barrier @ CudaCommitGroup"] if grouped else []), call, *wait],
        ),
        fence("cuda_in_order", "cuda_generic_and_async"),
    ]
