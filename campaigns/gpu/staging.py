"""Pieces without asynchronous instructions: exchanges, vectors, shuffles, split barriers."""

from __future__ import annotations

from campaigns.gpu.making import BYTES, Launch, Making, Node, fence, nested
from campaigns.gpu.units import elements, loop, spread
from campaigns.gpu.values import dtype, expression, of_bytes


def permuted(m: Making, at: str, total: int) -> str:
    """A number that no two of the numbers below `total` share."""
    rotate = m.rng.randint(1, total - 1)
    forms = [f"{total - 1} - ({at})", f"({at} + {rotate}) % {total}"]
    forms += [f"(({at}) % {d}) * {total // d} + ({at}) / {d}" for d in (2, 4, 8) if total % d == 0]
    # Quasi-affine: a remainder is multiplied by a constant on its left.
    return m.rng.choice([form.replace(") * ", ") * ", 1) for form in forms])


def exchange(m: Making, k: Launch) -> list[Node]:
    """Through shared memory, and out in another order by other threads."""
    m.note("shared memory")
    kind, total = dtype(m), m.rng.choice([32, 64, 96, 100, 128, 160, 256])
    buf = m.name("buf")
    x, y = m.array("x", kind, k.rows, total), m.array("y", kind, k.rows, total)
    roles = bool(k.roles)

    def copy_out(e: str) -> list[Node]:
        value = expression(m, kind, f"{buf}[{permuted(m, e, total)}]", f"{buf}[{e}]")
        return [f"{y}[{k.row}, {e}] = {value}"]

    return [
        f"{buf}: {kind}[{total}] @ CudaSmemLinear",
        *elements(m, k.block, total, lambda e: [f"{buf}[{e}] = {x}[{k.row}, {e}]"], by_role=roles),
        fence(),
        *elements(m, k.block, total, copy_out, by_role=roles),
        fence(),
    ]


def ragged(m: Making, k: Launch) -> list[Node]:
    """A vector of any length in tiles, the last of which has guards."""
    if not k.tile:
        return exchange(m, k)
    m.note("guards at the end", "shared memory")
    kind, total, buf = dtype(m), k.tile, m.name("buf")
    x, y = m.array("x", kind, "L"), m.array("y", kind, "L")
    m.elements += 2 * total
    at = f"{total} * task"

    def copy_in(e: str) -> list[Node]:
        return [
            (f"if {at} + {e} < L:", [f"{buf}[{e}] = {x}[{at} + {e}]"]),
            ("else:", [f"{buf}[{e}] = 0"]),
        ]

    def copy_out(e: str) -> list[Node]:
        value = expression(m, kind, f"{buf}[{permuted(m, e, total)}]")
        return [(f"if {at} + {e} < L:", [f"{y}[{at} + {e}] = {value}"])]

    return [
        f"{buf}: {kind}[{total}] @ CudaSmemLinear",
        *elements(m, k.block, total, copy_in),
        fence(),
        *elements(m, k.block, total, copy_out),
        fence(),
    ]


def local(m: Making, k: Launch) -> list[Node]:
    """An exchange inside each unit, with a Fence of that unit: lanes, a warp, some warps."""
    warps = k.block // 32
    shapes = [(2, 32), (4, 32), (8, 32), (16, 32), (32, 32), (32, 32)]
    shapes += [(32 * n, 32 * n) for n in (2, 3, 4) if warps % n == 0 and n < warps]
    each, _ = m.rng.choice(shapes)
    kind, buf, g, t = dtype(m), m.name("buf"), m.name("g"), m.name("t")
    x, y = m.array("x", kind, k.rows, k.block), m.array("y", kind, k.rows, k.block)
    m.note(
        "shared memory",
        f"fence of {each if each < 32 else each // 32} {'lanes' if each < 32 else 'warps'}",
    )
    headers = (
        [loop(w := m.name("w"), warps, "cuda_warp"), loop(g, 32 // each, f"{each} * cuda_thread")]
        if each < 32
        else [loop(g, k.block // each, f"{each // 32} * cuda_warp")]
    )
    base = f"32 * {w} + {each} * {g}" if each < 32 else f"{each} * {g}"
    other = permuted(m, t, each) if each > 1 else t
    threads = loop(t, each, "cuda_thread")
    return [
        f"{buf}: {kind}[{k.block}] @ CudaSmemLinear",
        *nested(
            headers,
            [
                (threads, [f"{buf}[{base} + {t}] = {x}[{k.row}, {base} + {t}]"]),
                fence(),
                (
                    threads,
                    [
                        f"{y}[{k.row}, {base} + {t}] = "
                        + expression(m, kind, f"{buf}[{base} + {other}]", f"{buf}[{base} + {t}]")
                    ],
                ),
            ],
        ),
        fence(),
    ]


def through_global(m: Making, k: Launch) -> list[Node]:
    """Threads read what others of their CTA wrote to global memory, before and after a change."""
    m.note("exchange in global memory")
    kind = dtype(m)
    x, y = m.array("x", kind, k.rows, k.block), m.array("y", kind, k.rows, k.block)
    z = m.array("z", kind, k.rows, k.block)
    one, two, three = (spread(m, k.block, whole=True) for _ in range(3))
    first = expression(m, kind, f"{x}[{k.row}, {one.number}]")
    read = f"{z}[{k.row}, {permuted(m, two.number, k.block)}]"
    third = expression(m, kind, f"{z}[{k.row}, {three.number}]")
    return [
        *nested(one.headers, [f"{z}[{k.row}, {one.number}] = {first}"]),
        fence(),
        *nested(two.headers, [f"{y}[{k.row}, {two.number}] = {read}"]),
        fence(),
        *nested(three.headers, [f"{z}[{k.row}, {three.number}] = {third}"]),
        fence(),
        *nested(two.headers, [f"{y}[{k.row}, {two.number}] += {z}[{k.row}, {two.number}]"]),
        *([fence()] if m.chance(0.5) else []),
    ]


def vectors(m: Making, k: Launch) -> list[Node]:
    """Vectors of up to 16 bytes in and out, by way of registers and at times shared memory."""
    kind = of_bytes(m, ("f32", "f16", "bf16", "f64", "i32", "i8", "ui16"))
    n = m.rng.choice([n for n in (1, 2, 4, 8, 16) if n * BYTES[kind] <= 16])
    m.note(f"vectors of {n * BYTES[kind]} bytes", "registers")
    total = k.block * n
    x, y = m.array("x", kind, k.rows, total), m.array("y", kind, k.rows, total)
    s, u, i = spread(m, k.block, whole=True), spread(m, k.block, whole=True), m.name("i")
    r, q = m.name("r"), m.name("r")
    load, store = (
        f"cuda_load({{}}, {{}}, n={n}, dtype={kind})",
        "cuda_store({}, {}, " + (f"n={n}, dtype={kind})"),
    )
    here, there = (f"{n} * ({v.number}) : {n} * ({v.number}) + {n}" for v in (s, u))
    change = (f"for {i} in seq(0, {n}):", [f"{r}[{i}] = {expression(m, kind, f'{r}[{i}]')}"])
    body: list[Node] = [
        f"{r}: {kind}[{n}]",
        load.format(f"{r}[:]", f"{x}[{k.row}, {here}]"),
        change,
    ]
    if m.chance(0.5):
        return nested(s.headers, [*body, store.format(f"{y}[{k.row}, {here}]", f"{r}[:]")])
    m.note("vectors in shared memory", "shared memory")
    buf = m.name("buf")
    other = permuted(m, u.number, k.block)
    there_from = f"{n} * ({other}) : {n} * ({other}) + {n}"
    return [
        f"{buf}: {kind}[{total}] @ CudaSmemLinear",
        *nested(s.headers, [*body, store.format(f"{buf}[{here}]", f"{r}[:]")]),
        fence(),
        *nested(
            u.headers,
            [
                f"{q}: {kind}[{n}]",
                load.format(f"{q}[:]", f"{buf}[{there_from}]"),
                store.format(f"{y}[{k.row}, {there}]", f"{q}[:]"),
            ],
        ),
        fence(),
    ]


def shuffles(m: Making, k: Launch) -> list[Node]:
    """Registers of a warp, exchanged and summed."""
    m.note("shuffles", "registers", "distributed registers")
    kind = of_bytes(m, ("f32", "i32", "f64", "i64"))
    a, b, w, t = m.name("a"), m.name("b"), m.name("w"), m.name("t")
    warps = k.block // 32
    x, y = m.array("x", kind, k.rows, k.block), m.array("y", kind, k.rows, k.block)
    lane = loop(t, 32, "cuda_thread")
    steps: list[Node] = []
    for _ in range(m.rng.randint(1, 4)):
        call = m.rng.choice(
            [
                f"cuda_shfl_xor({b}[{w}, :], {a}[{w}, :], mask={m.rng.choice([1, 2, 4, 8, 16])}, "
                f"dtype={kind})",
                f"cuda_shfl_down({b}[{w}, :], {a}[{w}, :], delta={m.rng.randint(1, 31)}, "
                f"dtype={kind})",
                f"cuda_shfl_idx({b}[{w}, :], {a}[{w}, :], lane={m.rng.randint(0, 31)}, "
                f"dtype={kind})",
            ]
        )
        change = expression(m, kind, f"{a}[{w}, {t}]", f"{b}[{w}, {t}]")
        if "*" in change or "/" in change:
            change = f"{a}[{w}, {t}] + {b}[{w}, {t}]"
        steps += [call, (lane, [f"{a}[{w}, {t}] = {change}"])]
    return [
        f"{a}: {kind}[{warps}, 32]",
        f"{b}: {kind}[{warps}, 32]",
        (
            loop(w, warps, "cuda_warp"),
            [
                (lane, [f"{a}[{w}, {t}] = {x}[{k.row}, 32 * {w} + {t}]"]),
                *steps,
                (lane, [f"{y}[{k.row}, 32 * {w} + {t}] = {a}[{w}, {t}]"]),
            ],
        ),
    ]


def split(m: Making, k: Launch) -> list[Node]:
    """A loop in which threads exchange through shared memory by two mbarriers."""
    m.note("mbarrier", "split barrier", "shared memory")
    kind, trips = dtype(m), m.rng.choice(["K", "3", "5"])
    extent = m.size("K") if trips == "K" else trips
    total = k.block
    depth = m.rng.choice([1, 1, 2, 3])
    m.note(f"ring of {depth}")
    buf, full, empty, i = m.name("buf"), m.name("full"), m.name("empty"), m.name("k")
    x = m.array("x", kind, k.rows, extent, total)
    y = m.array("y", kind, k.rows, extent, total)
    s, u = spread(m, k.block, whole=True), spread(m, k.block, whole=True)
    slot = f"{i} % {depth}" if depth > 1 else "0"
    value = expression(m, kind, f"{buf}[{slot}, {permuted(m, u.number, total)}]")
    return [
        f"{buf}: {kind}[{depth}, {total}] @ CudaSmemLinear",
        f"{full}: barrier @ CudaMbarrier",
        f"{empty}: barrier({full}) @ CudaMbarrier",
        (
            f"for {i} in seq(0, {extent}):",
            [
                f"Await({empty}, cuda_in_order, ~{depth})",
                *nested(
                    s.headers,
                    [f"{buf}[{slot}, {s.number}] = {x}[{k.row}, {i}, {s.number}]"],
                ),
                f"Arrive(cuda_in_order) >> {full}",
                f"Await({full}, cuda_in_order, ~0)",
                *nested(u.headers, [f"{y}[{k.row}, {i}, {u.number}] = {value}"]),
                f"Arrive(cuda_in_order) >> {empty}",
            ],
        ),
        fence(),
    ]
