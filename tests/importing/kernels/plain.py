"""Kernels of plain Triton, whose pipelines its compiler makes."""

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """A tile of c = a b, row-major."""
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    at = a + row[:, None] * k + inner[None, :]
    bt = b + inner[:, None] * n + column[None, :]
    acc = tl.zeros((M, N), tl.float32)
    for step in range(0, tl.cdiv(k, K)):
        left = k - step * K
        x = tl.load(at, mask=inner[None, :] < left, other=0.0)
        y = tl.load(bt, mask=inner[:, None] < left, other=0.0)
        acc = tl.dot(x, y, acc)
        at += K
        bt += K * n
    tl.store(c + row[:, None] * n + column[None, :], acc.to(tl.float16))


@triton.jit
def add_products(a, b, c, k, M: tl.constexpr, N: tl.constexpr):
    """c = a x, where x is the sum of the tiles of b: the bytes of a's mbarrier are b's later."""
    row = tl.program_id(0) * M
    left = a.load([row, 0])
    acc = tl.zeros((M, N), tl.float32)
    for step in range(0, k, N):
        acc = tl.dot(left, b.load([step, 0]).T, acc)
    c.store([row, 0], acc.to(tl.float16))


@triton.jit
def all_products(
    a,
    b,
    c,
    m,
    n,
    k,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    PROGRAMS: tl.constexpr,
):
    """c = a b', a tile after the other: the compiler initialises mbarriers anew for each tile."""
    wide = tl.cdiv(n, N)
    for tile in range(tl.program_id(0), tl.cdiv(m, M) * wide, PROGRAMS):
        row = tile // wide * M
        column = tile % wide * N
        acc = tl.zeros((M, N), tl.float32)
        for step in range(0, tl.cdiv(k, K)):
            x = a.load([row, step * K])
            y = b.load([column, step * K])
            acc = tl.dot(x, y.T, acc)
        c.store([row, column], acc.to(tl.float16))


@triton.autotune(
    configs=[
        triton.Config({"WIDTH": width}, num_warps=warps)
        for width in (512, 1024)
        for warps in (4, 8)
    ],
    key=["columns"],
)
@triton.jit
def row_norms(source, norms, columns, WIDTH: tl.constexpr):
    """The sum of the squares of each row."""
    row = tl.program_id(0)
    total = tl.zeros((WIDTH,), tl.float32)
    for start in range(0, columns, WIDTH):
        at = start + tl.arange(0, WIDTH)
        value = tl.load(source + row * columns + at, mask=at < columns, other=0.0)
        total += value * value
    tl.store(norms + row, tl.sum(total, 0))


@triton.heuristics({"WIDTH": lambda given: triton.next_power_of_2(given["columns"])})
@triton.jit
def add_rows(source, target, columns, WIDTH: tl.constexpr):
    """Adds a row of a matrix to one of another."""
    at = tl.program_id(0) * columns + tl.arange(0, WIDTH)
    known = tl.arange(0, WIDTH) < columns
    value = tl.load(source + at, mask=known) + tl.load(target + at, mask=known)
    tl.store(target + at, value, mask=known)
