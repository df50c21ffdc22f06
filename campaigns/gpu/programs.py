"""A random program from its seed: pieces in kernels, and what is done to them afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from campaigns.gpu import changes, copies, products, rings, staging
from campaigns.gpu.making import Launch, Making, Node, fence, lines

Piece = Callable[[Making, Launch], list[Node]]

IN_A_CTA: Mapping[Piece, int] = {
    staging.exchange: 4,
    staging.local: 3,
    staging.through_global: 3,
    staging.vectors: 3,
    staging.shuffles: 3,
    staging.split: 3,
    copies.cp_async: 4,
    copies.tma_load: 4,
    copies.tma_store: 4,
    products.mma_sync: 2,
    products.wgmma: 6,
}
"""Pieces of one CTA, and how often each is taken."""

BLOCKS = (32, 64, 96, 128, 128, 128, 160, 192, 256, 384)

HEAD = """\
from __future__ import annotations

from exogpu import *
from exogpu.isa.cuda import *
from exogpu.isa.sm80 import *
from exogpu.isa.sm90 import *
from exogpu.ir.nodes import WarpConfig as CudaWarpConfig


@proc
"""


@dataclass(frozen=True)
class Program:
    """A program in source form, and at which sizes it is run."""

    name: str
    source: str
    features: frozenset[str]
    sizes: tuple[Mapping[str, int], ...]


def generated(seed: int) -> Program:
    """The program of a seed."""
    m = Making(Random(f"gpu-fuzz {seed}"))
    body = _scheme(m)
    if m.chance(0.35):
        body = changes.with_fences(m, body)
    if m.chance(0.12):
        body = changes.without_one(m, body)
    name = f"fuzz_{seed}"
    sizes = [f"{size}: size" for size in m.sizes]
    head = f"def {name}({', '.join([*sizes, *m.parameters])}):"
    text = HEAD + "\n".join([head, *lines([*m.maps, *body], 1)]) + "\n"
    return Program(name, text, frozenset(m.features), _sizes(m))


# --- kernels ----------------------------------------------------------------------------------


def _scheme(m: Making) -> list[Node]:
    schemes: Mapping[Callable[[Making], list[Node]], int] = {
        _plain: 44,
        _clustered: 10,
        _roles: 20,
        _multicast: 10,
        _synchronised: 4,
        _kernels: 8,
        _on_the_cpu: 4,
    }
    return m.rng.choices(list(schemes), list(schemes.values()))[0](m)


def _pieces(m: Making, k: Launch, least: int = 1, most: int = 3) -> list[Node]:
    """Some pieces, one after the other: their shared memory may alias."""
    count = m.rng.randint(least, most)
    chosen = m.rng.choices(list(IN_A_CTA), list(IN_A_CTA.values()), k=count)
    if k.tile:
        chosen[0] = staging.ragged
    if count > 1:
        m.note("aliasing of shared memory", f"{count} pieces")
    return [node for piece in chosen for node in piece(m, k)]


def _device(block: str, headers: list[str], body: list[Node]) -> Node:
    for header in reversed(headers):
        body = [(header, body)]
    return (f"with CudaDeviceFunction({block}):", body)


def _tasks(m: Making, block: int) -> tuple[Launch, list[str]]:
    """Chooses how the tasks of a kernel of single CTAs are counted."""
    how = m.rng.random()
    if how < 0.15:
        m.size("L")
        tile = m.rng.choice([48, 64, 100, 128, 200])
        m.note("ragged tasks")
        count = f"(L + {tile - 1}) / {tile}"
        return (
            Launch(block, 1, count, "task", "task", tile),
            [f"for task in cuda_tasks(0, {count}):"],
        )
    m.size("M")
    if how < 0.35:
        n = m.rng.randint(2, 5)
        m.note("two loops over tasks")
        row = f"{n} * tm + tn"
        headers = ["for tm in cuda_tasks(0, M):", f"for tn in cuda_tasks(0, {n}):"]
        return Launch(block, 1, f"{n} * M", row, row), headers
    return Launch(block, 1, "M", "task", "task"), ["for task in cuda_tasks(0, M):"]


def _plain(m: Making) -> list[Node]:
    block = m.rng.choice(BLOCKS)
    m.note(f"{block} threads")
    k, headers = _tasks(m, block)
    return [_device(f"blockDim={block}", headers, _pieces(m, k))]


def _clustered(m: Making) -> list[Node]:
    """CTAs of a cluster, each with pieces of its own."""
    block, n = m.rng.choice(BLOCKS[:7]), m.rng.choice([2, 2, 3, 4])
    m.note(f"cluster of {n}")
    m.size("M")
    k = Launch(block, n, f"{n} * M", f"{n} * task + cta", "task")
    ctas = f"for cta in cuda_threads(0, {n}, unit=cuda_cta_in_cluster):"
    head = f"clusterDim={n}, blockDim={block}"
    body: list[Node] = []
    for _ in range(m.rng.choice([1, 1, 2])):
        inside = _pieces(m, k, 1, 1)
        shared = [node for node in inside if isinstance(node, str) and _OF_A_CTA.match(node)]
        names = [found[1] for node in shared if (found := _OF_A_CTA.match(node))]
        rest = [node for node in inside if node not in shared]
        body += [
            *(_for_each(node, n) for node in shared),
            (ctas, [_indexed(node, names) for node in rest]),
            fence("cuda_in_order", "cuda_generic_and_async"),
        ]
    return [_device(head, ["for task in cuda_tasks(0, M):"], body)]


_OF_A_CTA = re.compile(r"(\w+): (?:barrier|.*@ (?:CudaSmem|Sm90_SmemSwizzled))")
"""The declaration of what every CTA has one of: the whole cluster must be done with it."""


def _for_each(declaration: str, count: int) -> Node:
    """The declaration for all CTAs of a cluster."""
    name, _, rest = declaration.partition(": ")
    kind, at, memory = rest.partition(" @ ")
    base, bracket, shape = kind.partition("[")
    return f"{name}: {base}[{count}{', ' + shape if bracket else ']'}{at}{memory}"


def _indexed(node: Node, names: list[str]) -> Node:
    """The statement, with each CTA's own of what they share a declaration of."""
    if isinstance(node, tuple):
        return _in_words(node[0], names), [_indexed(inner, names) for inner in node[1]]
    return _in_words(node, names)


def _in_words(text: str, names: list[str]) -> str:
    for name in names:
        text = re.sub(rf"\b{name}\[", f"{name}[cta, ", text)
        text = re.sub(rf"\b{name}\b(?!\[)", f"{name}[cta]", text)
    return text


REGISTERS = {4: (56, 256), 8: (40, 232), 12: (32, 160)}
"""By the consumers' warps, beside four others: registers of a thread that fit the CTA's pool."""


def _config(m: Making, cluster: int, *, groups_of_four: bool = False) -> tuple[Launch, str]:
    """A launch with roles, at times with setmaxnreg."""
    if m.chance(0.4):
        m.note("setmaxnreg")
        takers = m.rng.choice([4, 8, 8, 12])
        dec, inc = REGISTERS[takers]
        groups = [("producer", 1, dec, 0), ("unused", 3, dec, 0), ("consumer", takers, 0, inc)]
    elif groups_of_four:
        groups = [("producer", 4, 0, 0), ("consumer", m.rng.choice([4, 8]), 0, 0)]
    else:
        makers, takers = m.rng.choice([1, 1, 2, 4]), m.rng.choice([1, 2, 3, 4, 4])
        groups = [("producer", makers, 0, 0), ("consumer", takers, 0, 0)]
    m.size("M")
    warps = sum(count for _, count, _, _ in groups)
    roles = ((groups[0][0], groups[0][1]), (groups[-1][0], groups[-1][1]))
    rows, row = ("M", "task") if cluster == 1 else (f"{cluster} * M", f"{cluster} * task + cta")
    listed = ", ".join(f'CudaWarpConfig("{n}", {c}, {d}, {i})' for n, c, d, i in groups)
    head = f"clusterDim={cluster}, " if cluster > 1 else ""
    return (
        Launch(32 * warps, cluster, rows, row, "task", 0, roles),
        f"{head}warp_config=[{listed}]",
    )


def _roles(m: Making) -> list[Node]:
    ring = m.rng.choice([rings.by_threads, rings.by_tma, rings.products])
    k, head = _config(m, 1, groups_of_four=ring is rings.products)
    body = ring(m, k)
    if m.chance(0.3):
        m.note("aliasing of shared memory", "a CTA's piece beside roles")
        body = [*body, *staging.exchange(m, k)]
    return [_device(head, ["for task in cuda_tasks(0, M):"], body)]


def _multicast(m: Making) -> list[Node]:
    n = m.rng.choice([2, 2, 4])
    m.note(f"cluster of {n}")
    if m.chance(0.7):
        k, head = _config(m, n)
    else:
        m.size("M")
        block = m.rng.choice([64, 128])
        head = f"clusterDim={n}, blockDim={block}"
        k = Launch(block, n, f"{n} * M", f"{n} * task + cta", "task")
    return [_device(head, ["for task in cuda_tasks(0, M):"], rings.multicast(m, k))]


def _synchronised(m: Making) -> list[Node]:
    n, block = m.rng.choice([2, 3, 4]), m.rng.choice([32, 64, 128])
    m.note(f"cluster of {n}")
    m.size("M")
    k = Launch(block, n, f"{n} * M", f"{n} * task + cta", "task")
    head = f"clusterDim={n}, blockDim={block}"
    return [_device(head, ["for task in cuda_tasks(0, M):"], rings.cluster_sync(m, k))]


def _kernels(m: Making) -> list[Node]:
    """Kernels one after the other; a memset, and a vector that all of them change."""
    m.note("several kernels")
    m.size("M")
    block = m.rng.choice(BLOCKS)
    total = m.array("acc", "f32", "M", block)
    steps: list[Node] = []
    if m.chance(0.5):
        m.note("memset")
        total = m.name("sum")
        m.parameters.append(f"{total}: f32[{block} * M] @ CudaGmemLinear")
        m.elements += block
        steps.append(f"cuda_memset0_1d({block} * M, {total}[:])")
    flat = total.startswith("sum")
    for _ in range(m.rng.randint(2, 3)):
        k = Launch(block, 1, "M", "task", "task")
        x, t = m.array("x", "f32", "M", block), m.name("t")
        target = f"{total}[{block} * task + {t}]" if flat else f"{total}[task, {t}]"
        add: list[Node] = [
            (
                f"for {t} in cuda_threads(0, {block}, unit=cuda_thread):",
                [f"{target} += {x}[task, {block - 1} - {t}]"],
            )
        ]
        body = [*_pieces(m, k, 1, 1), *add] if m.chance(0.5) else add
        steps.append(_device(f"blockDim={block}", ["for task in cuda_tasks(0, M):"], body))
    return steps


def _on_the_cpu(m: Making) -> list[Node]:
    """Launches in a loop, with conditions on its iterator."""
    m.note("CPU loops", "several kernels")
    m.size("M")
    size, block = m.size("K"), m.rng.choice([32, 64, 128])
    acc, x = m.array("acc", "f32", "M", block), m.array("x", "f32", size, "M", block)
    y, t, i = m.array("y", "f32", size, "M", block), m.name("t"), m.name("i")
    threads = f"for {t} in cuda_threads(0, {block}, unit=cuda_thread):"
    one: list[Node] = [(threads, [f"{acc}[task, {t}] += {x}[{i}, task, {t}]"])]
    two: list[Node] = [(threads, [f"{y}[{i}, task, {t}] = {acc}[task, {block - 1} - {t}]"])]
    tasks = ["for task in cuda_tasks(0, M):"]
    launches: list[Node] = [_device(f"blockDim={block}", tasks, body) for body in (one, two)]
    if m.chance(0.5):
        m.note("CPU conditions")
        launches[0] = (f"if {i} % 2 == 0:", [launches[0]])
    return [(f"for {i} in seq(0, {size}):", launches)]


# --- sizes ------------------------------------------------------------------------------------

MOST_ELEMENTS = 16_000
"""The elements of the arrays at the largest sizes, where the smallest do not have more."""


def _sizes(m: Making) -> tuple[Mapping[str, int], ...]:
    """Three: the smallest, some, and many tasks."""
    rng = m.rng
    loops = {"K": (1, rng.randint(2, 4), rng.randint(5, 9))} if "K" in m.sizes else {}
    found = []
    for number in range(3):
        sizes: dict[str, int] = {}
        for name in m.sizes:
            if name == "K":
                sizes[name] = loops["K"][number]
        weight = max(1, m.elements * sizes.get("K", 1) // (64 if "K" in sizes else 1))
        most = max(2, min(300, MOST_ELEMENTS // weight))
        tasks = (1, rng.randint(2, min(9, most)), rng.randint(min(9, most), most))[number]
        for name in m.sizes:
            if name == "M":
                sizes[name] = tasks
            elif name == "L":
                sizes[name] = rng.randint(1, 60) if number == 0 else 61 * tasks + rng.randint(0, 60)
        found.append({name: sizes[name] for name in m.sizes})
    return tuple(found)
