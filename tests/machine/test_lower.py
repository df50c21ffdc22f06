"""The conversion, statement by statement, against the figures.

Decision `assignment-reads`.
"""

from __future__ import annotations

import sys

import pytest

from exogpu.amir import nodes as amir
from exogpu.amir.export import to_json, unique_names
from exogpu.amir.lower import lower
from exogpu.amir.walk import operations
from exogpu.analysis.all_facts import facts_of
from exogpu.analysis.collective import analyse
from exogpu.analysis.facts import gathered
from exogpu.analysis.inline import inline
from exogpu.analysis.lifetimes import insert_frees
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.diagnostics.verdict import Policy
from exogpu.frontend.instructions import instr
from exogpu.frontend.procedures import parse_proc
from exogpu.hw.memories import CudaMbarrier
from exogpu.hw.operands import (
    CUDA_MEMORY,
    CUDA_REGISTER,
    TMA_LOAD,
    TMA_REDUCE,
    WGMMA_D,
    clipped,
    over,
)
from exogpu.hw.timelines import SHORT_NAME
from exogpu.hw.units import cuda_cta_in_cluster, cuda_thread, cuda_warp
from exogpu.ir.nodes import Access, Interval
from exogpu.isa.cuda import cuda_load, cuda_shfl_xor
from exogpu.machine import literal
from tests.machine.parsed import ir_of


def program_of(function, policy: Policy = Policy.PTX) -> amir.Program:
    ir, diagnostics = parse_proc(function, sys._getframe(1))
    assert ir is not None, diagnostics
    facts, diagnostics = facts_of(insert_frees(inline(ir)))
    assert facts is not None, diagnostics
    return lower(facts, policy)


def show(program: amir.Program) -> list[str]:
    """One line an operation but Requires, indented by its depth."""
    names = unique_names(program)
    return list(_lines(program.body, (), names, 0))


def _lines(block, iterators, names, depth):
    for op in block:
        if not _orders(op):
            continue
        threads = op.origin.threads
        by = "cpu" if threads is None else _count(threads)
        yield "  " * depth + f"{_text(op)} by {by}"
        if isinstance(op, amir.Loop):
            yield from _lines(op.body, (*iterators, op.iterator), names, depth + 1)
        if isinstance(op, amir.Guard):
            yield from _lines(op.body, iterators, names, depth + 1)


def _orders(op) -> bool:
    """Whether it says something of the order of accesses, and not of bounds or values alone."""
    if isinstance(op, amir.Loop | amir.Guard):
        return any(map(_orders, op.body))
    return not isinstance(op, amir.Require | amir.Initialise | amir.CheckInitialised)


def _count(threads) -> int:
    total = 1
    for axis in threads.axes:
        total *= axis.extent
    return total


def _text(op) -> str:
    match op:
        case amir.Loop():
            return f"for {op.iterator}"
        case amir.Guard():
            return "if"
        case amir.Record():
            what = "RecordMutate" if op.mutate else "RecordRead"
            line = "none" if op.timeline is None else SHORT_NAME[op.timeline]
            trailing = ""
            if op.trailing is not None:
                (target,) = op.trailing.targets
                trailing = f" >> {_window(target)}"
            how = "one" if op.convergent else "each"
            level = op.level.name.split("_")[0].lower()
            return f"{what} {_window(op.access)} {level} {how} {line}{trailing}"
        case amir.Check():
            what = "CheckMutates" if op.mutates else "CheckReads"
            level = op.level.name.split("_")[0].lower()
            how = "one" if op.convergent else "each"
            timelines = "+".join(sorted(SHORT_NAME[q] for q in op.timelines))
            flags = " free" * op.free + " reads" * (op.reads and op.mutates)
            return f"{what} {_window(op.access)} {level} {how} {timelines}{flags}"
        case amir.Clear():
            return f"Clear{'Mutates' if op.mutates else 'Reads'} {_window(op.access)}"
        case amir.Arrive():
            return f"Arrive {_window(op.home)} of {len(op.targets)}"
        case amir.Await():
            return f"Await {_window(op.barrier)} {op.n}"
        case amir.Alloc() | amir.Release() | amir.CheckBarrier():
            return f"{type(op).__name__} {op.name}"
        case _:
            return type(op).__name__


def _window(access: Access) -> str:
    coords = [":" if isinstance(c, Interval) else "." for c in access.coords]
    return f"{access.name}[{''.join(coords)}]"


def test_cpu_assignments():
    def p(n: size, x: f32[n] @ DRAM, y: f32[n] @ DRAM):
        for i in seq(0, n):
            x[i] = y[i] * y[i] + 2.0
            x[i] += 1.0

    # T_s of `=` and `+=`: the repeated read of y counts once; `=` asks temporal order of the
    # mutates of x, `+=` full order; the CPU is one thread that stands for all.
    assert show(program_of(p)) == [
        "for i by cpu",
        "  CheckMutates y[.] fully each cpu reads by cpu",
        "  RecordRead y[.] fully one cpu by cpu",
        "  CheckReads x[.] temporally each cpu by cpu",
        "  CheckMutates x[.] temporally each cpu by cpu",
        "  ClearReads x[.] by cpu",
        "  ClearMutates x[.] by cpu",
        "  RecordMutate x[.] fully one cpu by cpu",
        "  CheckReads x[.] temporally each cpu by cpu",
        "  CheckMutates x[.] fully each cpu reads by cpu",
        "  ClearReads x[.] by cpu",
        "  ClearMutates x[.] by cpu",
        "  RecordMutate x[.] fully one cpu by cpu",
    ]


def test_kernel_structure():
    def p(n: size, x: f32[n, n, 32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=64):
            for i in cuda_tasks(0, n):
                for j in cuda_tasks(0, n):
                    buf: f32[32] @ CudaSmemLinear
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        if t < 7:
                            buf[t] = x[i, j, t]
                        else:
                            r: f32 @ CudaRmem
                            r = 1.0
                    Fence(cuda_in_order, cuda_in_order)

    lines = show(program_of(p))
    # Stream fences around the launch; IncTaskID in the innermost task loop alone; the free of
    # the shared buffer takes all 64 threads of the cluster, that of the register nothing.
    assert lines == [
        "Fence by cpu",
        "for i by 64",
        "  for j by 64",
        "    IncTaskID by 64",
        "    Alloc buf by 64",
        "    for t by 64",
        "      if by 1",
        "        CheckMutates x[...] fully each cuda2 reads by 1",
        "        RecordRead x[...] fully each cuda2 by 1",
        "        CheckReads buf[.] temporally each cuda2 by 1",
        "        CheckMutates buf[.] temporally each cuda2 by 1",
        "        ClearReads buf[.] by 1",
        "        ClearMutates buf[.] by 1",
        "        RecordMutate buf[.] fully each cuda2 by 1",
        "      if by 1",
        "        Alloc r by 1",
        "        CheckReads r[] temporally each cuda1 by 1",
        "        CheckMutates r[] temporally each cuda1 by 1",
        "        ClearReads r[] by 1",
        "        ClearMutates r[] by 1",
        "        RecordMutate r[] fully each cuda1 by 1",
        "        Release r by 64",
        "    Fence by 64",
        "    CheckReads buf[:] temporally each cuda2 free by 64",
        "    CheckMutates buf[:] temporally each cuda2 free by 64",
        "    Release buf by 64",
        "Fence by cpu",
    ]


def test_reads_of_what_is_allocated_ask_for_a_write():
    def p(n: size, x: f32[n] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for i in cuda_tasks(0, n):
                for t in cuda_threads(0, 1, unit=cuda_thread):
                    r: f32 @ CudaRmem
                    r = x[i]
                    uninit(r)
                    x[i] = r

    found = [
        (type(op).__name__, str(op.access.name), getattr(op, "uninit", False))
        for op in operations(program_of(p).body)
        if isinstance(op, amir.Initialise | amir.CheckInitialised)
    ]
    # Of x, a parameter, nothing is asked.
    assert found == [
        ("Initialise", "r", False),
        ("Initialise", "r", True),
        ("CheckInitialised", "r", False),
    ]


def test_grid_constants_are_exempt():
    def p(x: f32[4] @ CudaGmemLinear, c: f32[4] @ CudaGridConstant):
        with CudaDeviceFunction(blockDim=32):
            for i in cuda_tasks(0, 1):
                for t in cuda_threads(0, 4, unit=cuda_thread):
                    x[t] = c[t]

    assert not any("c[" in line for line in show(program_of(p)))


@instr(unit=cuda_warp, barrier=CudaMbarrier, dst=TMA_LOAD, src=clipped(TMA_LOAD))
def load(dst: f32[32] @ CudaSmemLinear, src: f32[32] @ CudaGmemLinear):
    for i in seq(0, 32):
        dst[i] = src[i]


def test_instruction_with_trailing_barrier():
    def p(x: f32[32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for i in cuda_tasks(0, 1):
                buf: f32[32] @ CudaSmemLinear
                bar: barrier @ CudaMbarrier
                load(buf[:], x[:]) >> bar
                Arrive(cuda_temporal) >> bar
                Await(bar, cuda_in_order)

    lines = [line.strip() for line in show(program_of(p))]
    # The barrier's own record has no timeline; the instruction's are tagged; the buffer is freed
    # at the end of its scope, and before the barrier, which was allocated after it.
    assert lines[5:25] == [
        "RecordRead bar[] fully each none >> bar[] by 32",
        "CheckMutates buf[:] temporally each tmaS by 32",
        "CheckReads buf[:] temporally each tmaS by 32",
        "ClearReads buf[:] by 32",
        "ClearMutates buf[:] by 32",
        "RecordMutate buf[:] unordered each tmaS >> bar[] by 32",
        "CheckMutates x[:] fully each tmaS reads by 32",
        "RecordRead x[:] unordered each tmaS >> bar[] by 32",
        "RecordRead bar[] fully each cuda2 by 32",
        "Arrive bar[] of 1 by 32",
        "RecordRead bar[] fully each cuda2 by 32",
        "Await bar[] -1 by 32",
        "CheckReads buf[:] temporally each cuda2 free by 32",
        "CheckMutates buf[:] temporally each cuda2 free by 32",
        "Release buf by 32",
        "CheckBarrier bar by 32",
        "CheckReads bar[] temporally each cuda2 free by 32",
        "CheckMutates bar[] temporally each cuda2 free by 32",
        "Release bar by 32",
        "Fence by cpu",
    ]


@instr(
    unit=2 * cuda_cta_in_cluster,
    barrier=CudaMbarrier,
    barrier_units=(cuda_cta_in_cluster,),
    dst=over(TMA_LOAD, cuda_cta_in_cluster),
    src=clipped(TMA_LOAD),
)
def multicast(dst: f32[2, 32] @ CudaSmemLinear, src: f32[32] @ CudaGmemLinear):
    for i in seq(0, 32):
        for cta in seq(0, 2):
            dst[cta, i] = src[i]


def multicast_kernel(x: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(clusterDim=2, blockDim=32):
        for i in cuda_tasks(0, 1):
            buf: f32[2, 32] @ CudaSmemLinear
            bar: barrier[2] @ CudaMbarrier
            multicast(buf[:, :], x[:]) >> bar[:]
            for cta in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                Arrive(cuda_temporal) >> bar[cta] >> bar[:]
                Await(bar[cta], cuda_in_order)


def test_multicast_instruction():
    lines = [line.strip() for line in show(program_of(multicast_kernel))]
    # Checks take both CTAs' 64 threads; the records are made by each CTA's.  What lands in a CTA
    # completes on its barrier, and so does the barrier's own; the source on any.
    per_cta, landing = "for bar_cuda_cta_in_cluster by 64", "for bar_landing by 32"
    assert lines[5:19] == [
        per_cta,
        landing,
        "RecordRead bar[.] fully each none >> bar[.] by 32",
        "CheckMutates buf[::] temporally each tmaS by 64",
        "CheckReads buf[::] temporally each tmaS by 64",
        "ClearReads buf[::] by 64",
        "ClearMutates buf[::] by 64",
        per_cta,
        landing,
        "RecordMutate buf[.:] unordered each tmaS >> bar[.] by 32",
        "CheckMutates x[:] fully each tmaS reads by 64",
        per_cta,
        "RecordRead x[:] unordered each tmaS >> bar[:] by 32",
        "for cta by 64",
    ]
    assert "Arrive bar[.] of 2 by 32" in lines


@pytest.mark.parametrize("policy", Policy)
def test_multicast_runs(policy):
    # Both CTAs arrive on both barriers, so each Await needs both: the first CTA's Await comes, in
    # program order, before the second CTA's Arrive.
    kinds = {
        v.kind.value for v in literal.run(program_of(multicast_kernel, policy), {}, collect=True)
    }
    assert "DEADLOCK" in kinds


@instr(unit=cuda_warp, dst=over(CUDA_REGISTER, cuda_thread), src=CUDA_MEMORY)
def spread(dst: f32[32] @ CudaRmem, src: f32[32] @ CudaSmemLinear):
    for i in seq(0, 32):
        dst[i] = src[i]


def test_owner_only_operand():
    def p():
        with CudaDeviceFunction(blockDim=32):
            for i in cuda_tasks(0, 1):
                buf: f32[32] @ CudaSmemLinear
                reg: f32[32] @ CudaRmem
                spread(reg[:], buf[:])

    lines = [line.strip() for line in show(program_of(p))]
    # The register is checked and recorded by the thread that owns it; shared memory by all.
    assert lines[5].startswith("for ")
    assert lines[6:13] == [
        "CheckMutates reg[.] temporally one cuda1 by 1",
        "CheckReads reg[.] temporally one cuda1 by 1",
        "ClearReads reg[.] by 1",
        "ClearMutates reg[.] by 1",
        "RecordMutate reg[.] fully one cuda1 by 1",
        "CheckMutates buf[:] fully each cuda2 reads by 32",
        "RecordRead buf[:] fully each cuda2 by 32",
    ]


@instr(unit=cuda_warp, dst=clipped(TMA_REDUCE), src=CUDA_MEMORY)
def reduce(dst: f32[32] @ CudaGmemLinear, src: f32[32] @ CudaSmemLinear):
    for i in seq(0, 32):
        dst[i] += src[i]


def test_atomic_operand():
    def p(x: f32[32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for i in cuda_tasks(0, 1):
                buf: f32[32] @ CudaSmemLinear
                reduce(x[:], buf[:])

    program = program_of(p)
    lines = [line.strip() for line in show(program)]
    # Note the lack of ClearMutates.
    assert lines[4:8] == [
        "CheckMutates x[:] atomic each tmaG reads by 32",
        "CheckReads x[:] temporally each tmaG by 32",
        "ClearReads x[:] by 32",
        "RecordMutate x[:] unordered each tmaG by 32",
    ]
    (record,) = (op for op in _all(program.body) if isinstance(op, amir.Record) and op.mutate)
    assert {SHORT_NAME[q] for q in record.atomic} == {"tmaG"}


def _all(block):
    for op in block:
        yield op
        if isinstance(op, amir.Loop | amir.Guard):
            yield from _all(op.body)


def requires(block) -> list[str]:
    """One line a Require of a program's JSON."""
    found = []
    for op in block:
        if op["op"] == "Require":
            sizes = [str(digit["size"]) for digit in op["together"]]
            each = "".join(f"{e['name']} from {e['lo']} to {e['hi']}: " for e in op["each"])
            told = " and ".join([*op["conditions"], *sizes])
            found.append(f"{op['kind']} {op['variable']}: {each}{told}")
        found += requires(op.get("body", []))
    return found


def test_what_is_required():
    def p(n: size, K: size, x: f32[n, K] @ CudaGmemLinear, y: f32[n, 32] @ CudaGmemLinear):
        assert K % 4 == 0
        with CudaDeviceFunction(blockDim=64):
            for i in cuda_tasks(0, n):
                r: f32[2, 32, 4]
                for w in cuda_threads(0, 2, unit=cuda_warp):
                    for t in cuda_threads(0, 32, unit=cuda_thread):
                        row = x[i, 0:K]
                        cuda_load(r[w, t, :], row[0:4])
                        partly(K, y[i, :])
                    cuda_shfl_xor(r[w, :, 1], r[w, :, 0], mask=1)
                Fence(cuda_in_order, cuda_in_order)

    assert requires(to_json(program_of(p))["body"]) == [
        # The window's own extent, and what is known of the rows: that they keep the alignment.
        "BOUNDS x: ((4) <= K)",
        "ALIGN x: (((K) mod 4) = (0))",
        # What the body touches under its guards, for all values of its loop.
        "BOUNDS y: ((K <= (0)) or (((0) <= i) and (i < n)))",
        "BOUNDS None: ((1) <= K)",
        # Lanes that another lane reads; and the threads that take part together.
        "DIVERGENCE None: 32",
        "BOUNDS r: ((0) <= w) and (w < (2))",
        "DIVERGENCE None: 32",
    ]


@instr(unit=cuda_thread, y=CUDA_MEMORY)
def partly(n: size, y: f32[32] @ CudaGmemLinear):
    """The first n elements."""
    for i in seq(0, 32):
        if i < n:
            y[i] = 0.0


def test_policies_differ_in_the_accumulator():
    wgmma_d = {p: WGMMA_D.extended_under(p) for p in Policy}
    assert {SHORT_NAME[q] for q in wgmma_d[Policy.PTX]} == {"wgD"}
    assert {SHORT_NAME[q] for q in wgmma_d[Policy.PAPER]} == {"wgD", "wg0"}


def test_homes():
    def p():
        with CudaDeviceFunction(clusterDim=4, blockDim=32):
            for i in cuda_tasks(0, 1):
                z: barrier[2, 2] @ CudaMbarrier
                for m in cuda_threads(0, 2, unit=2 * cuda_cta_in_cluster):
                    for n in cuda_threads(0, 2, unit=cuda_cta_in_cluster):
                        Arrive(cuda_in_order) >> z[m, :] >> z[:, n]

    (arrive,) = (op for op in _all(program_of(p).body) if isinstance(op, amir.Arrive))
    assert _window(arrive.home) == "z[..]"
    assert [c.at.name.name for c in arrive.home.coords] == ["m", "n"]
    assert len(arrive.targets) == 2


def test_an_arrive_without_home_is_refused():
    def p():
        with CudaDeviceFunction(clusterDim=2, blockDim=32):
            for i in cuda_tasks(0, 1):
                z: barrier[2] @ CudaMbarrier
                Arrive(cuda_in_order) >> z[:]

    flat = insert_frees(inline(ir_of(p)))
    facts = gathered(flat, analyse(flat)[0])
    with pytest.raises(ExoGpuError) as error:
        lower(facts, Policy.PTX)
    assert [d.code for d in error.value.diagnostics] == ["D507"]


def test_json():
    document = to_json(program_of(multicast_kernel))
    assert document["schema"] == 4
    names = [v["name"] for v in document["variables"]]
    assert names == ["x", "buf", "bar"]
    tasks = document["body"][1]
    assert (tasks["op"], tasks["mode"], tasks["iterator"]) == ("Loop", "tasks", "i")
    loop = tasks["body"][-1]
    arrives = [op for op in _json_ops(document["body"]) if op["op"] == "Arrive"]
    assert [a["threads"] for a in arrives] == [
        "{ [cta] -> [t] : exists j0 : t = 1 * ((32 * cta) + j0) and 0 <= j0 < 32 }"
    ]
    assert arrives[0]["home"] == {"variable": "bar", "coords": ["cta"]}
    assert arrives[0]["targets"][1] == {"variable": "bar", "coords": [["(0)", "(2)"]]}
    assert all(op["line"] > 0 and op["file"].endswith("test_lower.py") for op in _json_ops([loop]))
    # Two programs from one source are the same document, whatever numbers their variables have.
    assert document == to_json(program_of(multicast_kernel))


def _json_ops(body):
    for op in body:
        yield op
        yield from _json_ops(op.get("body", []))


def test_json_names_are_unique():
    def p(n: size, x: f32[n] @ DRAM):
        for k in seq(0, n):
            x[k] = 1.0
        for k in seq(0, n):
            x[k] = 2.0

    first, second = to_json(program_of(p))["body"]
    assert (first["iterator"], second["iterator"]) == ("k", "k_2")
    assert second["body"][0]["access"]["coords"] == ["k_2"]
