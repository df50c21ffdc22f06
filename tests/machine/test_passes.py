"""The passes before the conversion: inlining, frees, ring depths."""

from __future__ import annotations

from exogpu.analysis.inline import compose, inline
from exogpu.analysis.lifetimes import insert_frees
from exogpu.analysis.ring_depth import ring_depths
from exogpu.ir.nodes import (
    Access,
    Add,
    Alloc,
    Assign,
    BarrierAlloc,
    Block,
    CallProc,
    Const,
    CVar,
    For,
    Free,
    Int,
    Interval,
    Point,
    Proc,
    WindowStmt,
)
from exogpu.ir.types import Sym
from exogpu.ir.walk import blocks, control_variables, evaluate, walk
from exogpu.isa.cuda import cuda_memset0_1d
from tests.machine.parsed import ir_of

# --- inline -------------------------------------------------------------------------------


def targets(proc: Proc) -> list[Access]:
    return [s.target for s in walk(proc.body) if isinstance(s, Assign)]


def points(access: Access, values: dict[str, int]) -> tuple[int, ...]:
    """The coordinates of an access to one element, by the names of its variables."""
    found = []
    for coord in access.coords:
        assert isinstance(coord, Point)
        syms = {s: values[s.name] for s in control_variables(coord.at)}
        found.append(evaluate(coord.at, syms))
    return tuple(found)


def test_nothing_to_inline_returns_the_procedure():
    def p(x: f32[4] @ DRAM):
        x[0] = 1.0

    ir = ir_of(p)
    assert inline(ir) is ir


def test_windows_of_windows():
    def p(n: size, x: f32[n, 8, 16] @ DRAM):
        w = x[:, 3, 4:12]
        v = w[2:5, 1:3]
        for i in seq(0, 3):
            v[i, 1] = 1.0

    flat = inline(ir_of(p))
    assert not any(isinstance(s, WindowStmt) for s in walk(flat.body))
    (target,) = targets(flat)
    # v[i, 1] is w[2 + i, 1 + 1], which is x[2 + i, 3, 4 + 2].
    assert target.name.name == "x"
    assert points(target, {"i": 1}) == (3, 3, 6)


def test_calls():
    def fill(m: size, y: f32[m, 2] @ DRAM, value: f32 @ DRAM):
        t: f32[m] @ DRAM
        for i in seq(0, m):
            t[i] = value
            y[i, 1] = t[i]

    callee = ir_of(fill)
    x, one, n = Sym("x"), Const(1.0), Sym("n")
    window = Access(x, (Interval(Int(5), Int(8)), Point(CVar(n)), Interval(Int(1), Int(3))))
    caller = ir_of_call(callee, (Int(3), window, one), times=2)
    flat = inline(caller)
    statements = list(walk(flat.body))
    assert not any(isinstance(s, CallProc) for s in statements)
    # Every copy is its own statement, with its own local variable and iterator.
    assert len({id(s) for s in statements}) == len(statements)
    locals_ = [s.name for s in statements if isinstance(s, Alloc)]
    iterators = [s.iterator for s in statements if isinstance(s, For)]
    assert len(set(locals_)) == 2
    assert len(set(iterators)) == 2
    first_t, first_y, second_t, _ = targets(flat)
    assert (first_t.name, second_t.name) == tuple(locals_)
    # y[i, 1] is x[5 + i, n, 1 + 1], and `value` is the constant.
    assert first_y.name is x
    assert points(first_y, {"i": 2, "n": 7}) == (7, 7, 2)
    values = [s.value for s in statements if isinstance(s, Assign)]
    assert values[0] == one


def ir_of_call(callee: Proc, arguments, times: int) -> Proc:
    return Proc("caller", (), (), tuple(CallProc(callee, arguments) for _ in range(times)))


def test_compose_keeps_points():
    outer = (Point(Int(7)), Interval(CVar(Sym("a")), Int(9)))
    (kept, window) = compose(outer, (Interval(Int(1), Int(3)),))
    assert kept == Point(Int(7))
    assert isinstance(window, Interval)
    assert isinstance(window.lo, Add)


# --- frees --------------------------------------------------------------------------------


def outline(block: Block) -> list[str]:
    """`+x` for an allocation, `-x` for a free, `.` for another statement, nested in order."""
    found = []
    for stmt in block:
        match stmt:
            case Alloc() | BarrierAlloc():
                found.append(f"+{stmt.name}")
            case Free():
                found.append(f"-{stmt.name}")
            case _:
                inner = [o for b in blocks(stmt) for o in outline(b)]
                found += ["(", *inner, ")"] if inner else ["."]
    return found


def task_body(proc: Proc) -> list[str]:
    (launch,) = insert_frees(inline(proc)).body
    (tasks,) = launch.body
    return outline(tasks.body)


def test_shared_memory_is_freed_before_the_next_shared_allocation():
    def p(x: f32[4] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for i in cuda_tasks(0, 1):
                a: f32[4] @ CudaSmemLinear
                for t in cuda_threads(0, 4, unit=cuda_thread):
                    a[t] = x[t]
                Fence(cuda_in_order, cuda_in_order)
                b: f32[4] @ CudaSmemLinear
                c: f32[4] @ CudaSmemLinear
                for t in cuda_threads(0, 4, unit=cuda_thread):
                    b[t] = x[t]
                Fence(cuda_in_order, cuda_in_order)

    # a is used no more when b is allocated; b and c live to the end, c without a use.
    assert task_body(ir_of(p)) == [
        "+a", "(", ".", ")", ".", "-a", "+b", "+c", "(", ".", ")", ".", "-b", "-c",
    ]  # fmt: skip


def test_a_shared_allocation_while_in_use_frees_nothing():
    def p(x: f32[4] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for i in cuda_tasks(0, 1):
                a: f32[4] @ CudaSmemLinear
                b: f32[4] @ CudaSmemLinear
                for t in cuda_threads(0, 4, unit=cuda_thread):
                    b[t] = x[t]
                for t in cuda_threads(0, 4, unit=cuda_thread):
                    a[t] = x[t]

    # a's last use follows b's allocation; b's last use is followed by no allocation.
    assert task_body(ir_of(p)) == [
        "+a", "+b", "(", ".", ")", "(", ".", ")", "-a", "-b",
    ]  # fmt: skip


def test_other_memories_are_freed_after_last_use_and_mbarriers_at_the_end():
    def p(x: f32[4] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for i in cuda_tasks(0, 1):
                z: barrier @ CudaMbarrier
                g: barrier @ CudaCommitGroup
                Arrive(cuda_in_order) >> z
                Await(z, cuda_in_order)
                Arrive(wgmma_async) >> g
                Await(g, cuda_in_order)
                Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 4, unit=cuda_thread):
                    r: f32 @ CudaRmem
                    r = x[t]
                    x[t] = r
                    x[t] += 1.0

    assert task_body(ir_of(p)) == [
        "+z", "+g", ".", ".", ".", ".", "-g", ".",
        "(", "+r", ".", ".", "-r", ".", ")",
        "-z",
    ]  # fmt: skip


def test_frees_follow_windows_after_inlining():
    def p(x: f32[4] @ CudaGmemLinear):
        a: f32[4] @ CudaGmemLinear
        w = a[1:3]
        cuda_memset0_1d(2, w[:])
        cuda_memset0_1d(2, x[0:2])

    assert outline(insert_frees(inline(ir_of(p))).body) == ["+a", ".", "-a", "."]


def test_memory_of_the_host_ends_with_its_block():
    def p(x: f32[4] @ DRAM):
        for i in seq(0, 2):
            a: f32[4] @ DRAM
            a[0] = 1.0
            x[1] = 2.0
        x[0] = 1.0

    (loop, *_) = insert_frees(inline(ir_of(p))).body
    assert isinstance(loop, For)
    assert outline(loop.body) == ["+a", ".", ".", "-a"]


# --- ring depths --------------------------------------------------------------------------


def test_ring_depths():
    def p():
        with CudaDeviceFunction(blockDim=32):
            for i in cuda_tasks(0, 1):
                a: barrier @ CudaMbarrier
                b: barrier(a) @ CudaMbarrier
                c: barrier(b) @ CudaMbarrier
                alone: barrier @ CudaMbarrier
                group: barrier @ CudaCommitGroup
                Await(a, cuda_in_order, ~0)
                Await(b, cuda_in_order, ~2)
                Await(b, cuda_in_order, ~1)
                Await(c, cuda_in_order, ~3)
                Await(alone, cuda_in_order, ~4)

    depths = {name.name: depth for name, depth in ring_depths(ir_of(p)).items()}
    # One guard group of a, b and c, with the largest skip of each: 1 + 0 + 2 + 3.  A barrier
    # without guards has its depth found; a commit group has none.
    assert depths == {"a": 6, "b": 6, "c": 6, "alone": None}
