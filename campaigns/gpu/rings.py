"""Whole kernels of roles: producers fill a ring of tiles, consumers empty it; multicast."""

from __future__ import annotations

from campaigns.gpu.copies import mapped, staged
from campaigns.gpu.making import BYTES, Launch, Making, Node, fence
from campaigns.gpu.staging import permuted
from campaigns.gpu.units import elements, loop
from campaigns.gpu.values import expression, of_bytes


def by_threads(m: Making, k: Launch) -> list[Node]:
    """Producer warps store, or cp.async, into a ring; consumer warps read it."""
    (producer, makers), (consumer, takers) = k.roles[0], k.roles[-1]
    copies = m.chance(0.5)
    kind = of_bytes(m, ("f32", "i32", "f16", "f64") if not copies else ("f32", "i32"))
    depth = m.rng.choice([1, 2, 2, 3, 4])
    m.note("roles", "mbarrier", "ring", f"ring of {depth}")
    if copies:
        m.note("cp.async", "cp.async by mbarrier")
    size, n = m.size("K"), 4 if copies else 1
    total = 32 * makers * n
    x, y = m.array("x", kind, k.rows, size, total), m.array("y", kind, k.rows, size, total)
    buf, full, empty, i = m.name("buf"), m.name("full"), m.name("empty"), m.name("k")
    t, slot = m.name("t"), f"{i} % {depth}" if depth > 1 else "0"
    window = f"{n} * {t} : {n} * {t} + {n}"
    put = f"{buf}[{slot}, {t}] = {x}[{k.row}, {i}, {t}]"
    if copies:
        source = f"{x}[{k.row}, {i}, {window}]"
        put = f"Sm80_cp_async_copy({buf}[{slot}, {window}], {source}, dtype={kind})"

    def take(e: str) -> list[Node]:
        value = expression(m, kind, f"{buf}[{slot}, {permuted(m, e, total)}]")
        return [f"{y}[{k.row}, {i}, {e}] = {value}"]

    produce: list[Node] = [
        f"Await({empty}, cuda_in_order, ~{depth})",
        (loop(t, 32 * makers, "cuda_thread"), [put]),
        f"Arrive({'Sm80_cp_async' if copies else 'cuda_in_order'}) >> {full}",
    ]
    consume: list[Node] = [
        f"Await({full}, cuda_in_order, ~0)",
        *elements(m, 32 * takers, total, take, by_role=True),
        f"Arrive(cuda_in_order) >> {empty}",
    ]
    return [
        f"{buf}: {kind}[{depth}, {total}] @ CudaSmemLinear",
        f"{full}: barrier @ CudaMbarrier",
        f"{empty}: barrier({full}) @ CudaMbarrier",
        (
            f"for {i} in seq(0, {size}):",
            [
                (f'with CudaWarps(name="{producer}"):', produce),
                (f'with CudaWarps(name="{consumer}"):', consume),
            ],
        ),
        fence(),
    ]


def by_tma(m: Making, k: Launch) -> list[Node]:
    """The producer's first warp loads tiles by TMA; consumers read them, or multiply."""
    (producer, _), (consumer, takers) = k.roles[0], k.roles[-1]
    kind = of_bytes(m, ("f32", "f16", "bf16", "i32"))
    swizzle = m.rng.choice([0, 32, 64, 128])
    rows, cols = m.rng.choice([8, 16, 32]), (swizzle or 64) // BYTES[kind]
    depth = m.rng.choice([1, 2, 3, 4])
    m.note("roles", "mbarrier", "ring", f"ring of {depth}", "TMA load", f"swizzle {swizzle}")
    size, total = m.size("K"), rows * cols
    x = m.array("x", kind, k.rows, size, rows, cols)
    y = m.array("y", kind, k.rows, size, rows, cols)
    buf, full, empty = m.name("buf"), m.name("full"), m.name("empty")
    i = m.name("k")
    slot = f"{i} % {depth}" if depth > 1 else "0"
    window = mapped(m, x, swizzle, 1, 1, rows, cols)

    def take(e: str) -> list[Node]:
        value = expression(m, kind, f"{buf}[{slot}, ({e}) / {cols}, ({e}) % {cols}]")
        return [f"{y}[{k.row}, {i}, ({e}) / {cols}, ({e}) % {cols}] = {value}"]

    produce: list[Node] = [
        f"Await({empty}, cuda_generic_and_async, ~{depth})",
        f"Sm90_tma_load({buf}[{slot}, :, :], {window}[{k.row}, {i}, 0:{rows}, 0:{cols}], "
        f"rows={rows}, cols={cols}, box=(1, 1, {rows}, {cols}), swizzle={swizzle}, dtype={kind}) "
        f">> {full}",
        f"Arrive(cuda_temporal) >> {full}",
    ]
    consume: list[Node] = [
        f"Await({full}, cuda_generic_and_async, ~0)",
        *elements(m, 32 * takers, total, take, by_role=True),
        f"Arrive(cuda_in_order) >> {empty}",
    ]
    return [
        f"{buf}: {kind}[{depth}, {rows}, {cols}] @ {staged(swizzle)}",
        f"{full}: barrier @ CudaMbarrier",
        f"{empty}: barrier({full}) @ CudaMbarrier",
        (
            f"for {i} in seq(0, {size}):",
            [
                (f'with CudaWarps(0, 1, name="{producer}"):', produce),
                (f'with CudaWarps(name="{consumer}"):', consume),
            ],
        ),
        fence("cuda_in_order", "cuda_generic_and_async"),
    ]


def products(m: Making, k: Launch) -> list[Node]:
    """A producer warp loads tiles by TMA, and consumer warpgroups multiply them: a GEMM."""
    (producer, _), (consumer, takers) = k.roles[0], k.roles[-1]
    kind, swizzle = of_bytes(m, ("f32", "f32", "f16", "bf16")), m.rng.choice([32, 64, 128])
    width, deep, groups = swizzle // BYTES[kind], 32 // BYTES[kind], takers // 4
    wide, depth = m.rng.choice([8, 16, 32, 64]), m.rng.choice([1, 2, 3])
    m.note("roles", "mbarrier", "ring", f"ring of {depth}", "TMA load", "wgmma SS", "wgmma ring")
    m.note(f"wgmma {kind}", f"wgmma swizzle {swizzle}", "register tiles")
    size, tall = m.size("K"), 64 * groups
    x = m.array("x", kind, k.rows, size, tall, width)
    y = m.array("x", kind, k.rows, size, wide, width)
    z = m.array("y", "f32", k.rows, tall, wide)
    a, b, d, full, empty, cg = (m.name(s) for s in ("As", "Bs", "D", "full", "empty", "cg"))
    i, g, kk = m.name("k"), m.name("g"), m.name("kk")
    slot = f"{i} % {depth}" if depth > 1 else "0"
    loads: list[Node] = [
        f"Sm90_tma_load({buf}[{slot}, :, :], {mapped(m, array, swizzle, 1, 1, rows, width)}"
        f"[{k.row}, {i}, 0:{rows}, 0:{width}], rows={rows}, cols={width}, "
        f"box=(1, 1, {rows}, {width}), swizzle={swizzle}, dtype={kind}) >> {full}"
        for buf, array, rows in ((a, x, tall), (b, y, wide))
    ]
    name, types = ("tf32", "") if kind == "f32" else ("f16", f", dtype={kind}")
    at = f"{deep} * {kk} : {deep} * {kk} + {deep}"
    multiply = (
        f"Sm90_wgmma_{name}({d}[{g}, :, :], {a}[{slot}, 64 * {g} : 64 * {g} + 64, {at}], "
        f"{b}[{slot}, :, {at}], M=64, N={wide}, swizzle={swizzle}{types})"
    )
    warpgroups = loop(g, groups, "cuda_warpgroup")
    role = f'with CudaWarps(name="{consumer}"):'
    zero: list[Node] = [
        f"Sm90_zero_scale_d({d}[{g}, :, :], M=64, N={wide})",
        fence("wgmma_fence_1", "wgmma_fence_2"),
    ]
    step: list[Node] = [
        (f"for {kk} in seq(0, {width // deep}):", [multiply]),
        f"Arrive(wgmma_async) >> {cg}[{g}]",
        f"Await({cg}[{g}], cuda_in_order, 0)",
    ]
    return [
        f"{a}: {kind}[{depth}, {tall}, {width}] @ Sm90_SmemSwizzled({swizzle})",
        f"{b}: {kind}[{depth}, {wide}, {width}] @ Sm90_SmemSwizzled({swizzle})",
        f"{d}: f32[{groups}, 64, {wide}] @ Sm90_RmemMatrixD(64, {wide})",
        f"{full}: barrier @ CudaMbarrier",
        f"{empty}: barrier({full}) @ CudaMbarrier",
        f"{cg}: barrier[{groups}] @ CudaCommitGroup",
        (role, [(warpgroups, zero)]),
        (
            f"for {i} in seq(0, {size}):",
            [
                (
                    f'with CudaWarps(0, 1, name="{producer}"):',
                    [
                        f"Await({empty}, cuda_temporal, ~{depth})",
                        *loads,
                        f"Arrive(cuda_temporal) >> {full}",
                    ],
                ),
                (
                    role,
                    [
                        f"Await({full}, cuda_generic_and_async, ~0)",
                        (warpgroups, step),
                        f"Arrive(cuda_in_order) >> {empty}",
                    ],
                ),
            ],
        ),
        fence("cuda_in_order", "cuda_generic_and_async"),
        (
            role,
            [
                (
                    warpgroups,
                    [
                        f"Sm90_store_D({m.rng.choice([64, 64, 33])}, {wide}, "
                        f"{z}[{k.row}, 64 * {g} : 64 * {g} + 64, :], {d}[{g}, :, :], "
                        f"M=64, N={wide})"
                    ],
                )
            ],
        ),
        fence("cuda_in_order", "cuda_generic_and_async"),
    ]


def multicast(m: Making, k: Launch) -> list[Node]:
    """A ring of tiles that each CTA of a row or column of the cluster gets a slice of; the scope
    is the cluster."""
    kind = of_bytes(m, ("f32", "f16", "bf16"))
    swizzle = m.rng.choice([32, 64, 128])
    n = k.cluster
    cols = swizzle // BYTES[kind]
    rows = m.rng.choice([8, 16]) * n * (128 // swizzle)
    depth = m.rng.choice([1, 2, 3])
    m.note("cluster multicast", "mbarrier", "ring", f"ring of {depth}", "TMA load")
    m.note(f"swizzle {swizzle}", "multicast arrive")
    size, total = m.size("K"), rows * cols
    x = m.array("x", kind, "M", size, rows, cols)
    y = m.array("y", kind, f"{n} * M", size, rows, cols)
    buf, full, empty = m.name("buf"), m.name("full"), m.name("empty")
    i, c = m.name("k"), m.name("cta")
    slot = f"{i} % {depth}" if depth > 1 else "0"
    window = mapped(m, x, swizzle, 1, 1, rows // n, cols)
    warps = f"for {c} in cuda_threads(0, {n}, unit=cuda_warp_in_cluster):"
    ctas = f"for {c} in cuda_threads(0, {n}, unit=cuda_cta_in_cluster):"

    def take(e: str) -> list[Node]:
        value = expression(m, kind, f"{buf}[{c}, {slot}, ({e}) / {cols}, ({e}) % {cols}]")
        return [f"{y}[{n} * task + {c}, {i}, ({e}) / {cols}, ({e}) % {cols}] = {value}"]

    load = (
        f"Sm90_tma_multicast({buf}[:, {slot}, :, :], {window}[task, {i}, 0:{rows}, 0:{cols}], "
        f"n={n}, rows={rows}, cols={cols}, box=(1, 1, {rows // n}, {cols}), swizzle={swizzle}, "
        f"dtype={kind}) >> {full}[:]"
    )
    produce: list[Node] = [
        (warps, [f"Await({empty}[{c}], cuda_generic_and_async, ~{depth})"]),
        load,
        (warps, [f"Arrive(cuda_temporal) >> {full}[{c}]"]),
    ]
    role = k.roles[0][0] if k.roles else ""
    if k.roles:
        m.note("roles")
        takers = 32 * k.roles[-1][1]
        first = f'with CudaWarps(0, 1, name="{role}"):'
        second = f'with CudaWarps(name="{k.roles[-1][0]}"):'
    else:
        takers, first, second = k.block, "with CudaWarps(0, 1):", ""
    consume: list[Node] = [
        (
            ctas,
            [
                f"Await({full}[{c}], cuda_generic_and_async, ~0)",
                *elements(m, takers, total, take, by_role=True),
                f"Arrive(cuda_in_order) >> {empty}[{c}] >> {empty}[:]",
            ],
        )
    ]
    return [
        f"{buf}: {kind}[{n}, {depth}, {rows}, {cols}] @ Sm90_SmemSwizzled({swizzle})",
        f"{full}: barrier[{n}] @ CudaMbarrier",
        f"{empty}: barrier({full})[{n}] @ CudaMbarrier",
        (
            f"for {i} in seq(0, {size}):",
            [(first, produce), *([(second, consume)] if second else consume)],
        ),
        fence("cuda_in_order", "cuda_generic_and_async"),
    ]


def cluster_sync(m: Making, k: Launch) -> list[Node]:
    """CTAs of a cluster exchange through global memory by a split barrier; the scope is the
    cluster."""
    m.note("cluster sync", "exchange in global memory")
    kind, n = of_bytes(m, ("f32", "i32", "f64")), k.cluster
    z = m.array("z", kind, "M", n, k.block)
    x, y = m.array("x", kind, "M", n, k.block), m.array("y", kind, "M", n, k.block)
    c, t, cs = m.name("cta"), m.name("t"), m.name("cs")
    ctas = f"for {c} in cuda_threads(0, {n}, unit=cuda_cta_in_cluster):"
    threads = loop(t, k.block, "cuda_thread")
    other = f"{n - 1} - {c}"
    split = m.chance(0.6)
    sync: list[Node] = [fence()]
    if split:
        sync = [f"Arrive(cuda_in_order) >> {cs}", f"Await({cs}, cuda_in_order, 0)"]
    return [
        *([f"{cs}: barrier @ CudaClusterSync"] if split else []),
        (ctas, [(threads, [f"{z}[task, {c}, {t}] = {x}[task, {c}, {t}]"])]),
        *sync,
        (
            ctas,
            [
                (
                    threads,
                    [
                        f"{y}[task, {c}, {t}] = "
                        + expression(m, kind, f"{z}[task, {other}, {permuted(m, t, k.block)}]")
                    ],
                )
            ],
        ),
        fence(),
    ]
