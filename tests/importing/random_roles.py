"""Random TTGIR of two or three roles that hand tiles on through rings, right and wrong ones.

One role loads; one doubles each tile; and a third stores the result, or doubles each tile, too,
for a tensor of its own, or is not there.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

TILE = "32x64xf32, #shared, #smem, mutable"
BAR = "1xi64, #shared1, #smem, mutable"
BYTES = 32 * 64 * 4

HEAD = """\
#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], \
warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, \
elementBitWidth = 32}>
#shared1 = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, \
ttg.shared = 99999 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
"""
DESC = "!tt.tensordesc<32x64xf32, #shared>"

NUMBERS: Final = (*range(8), 32)
"""The constants of each role."""


@dataclass
class Choice:
    """What is drawn: the right program has the defaults."""

    depth: int = 2
    out_depth: int = 1
    storing: bool = True
    """Whether a third role stores; else each role that doubles does."""
    double: bool = False
    """Whether a third role doubles."""
    phases: dict[str, int] = field(default_factory=dict)
    """By wait: added to its phase."""
    missing: frozenset[str] = frozenset()
    """Steps that are left out."""
    early: frozenset[str] = frozenset()
    """Arrivals that come before the access that they tell of."""
    pending: int = 0
    shift: int = 0
    """Added to the slot that the second role reads."""
    masks: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By operation: its predicate, `from` or `below` so many iterations from an end."""
    count: int = 0
    """Added to the count of arrivals of `empty`."""
    bytes: int = 0
    """Added to the expected bytes."""
    lag: int = 0
    """Added to the slot that the loads fill, and to their mbarriers."""


STEPS: Final = (
    *("full", "empty", "ready", "free", "fence_read", "fence_write", "store_wait", "arrive"),
    *("meet_store", "meet_wait"),
)
MASKED: Final = ("load", "empty", "ready", "free")


def draw(rng: random.Random) -> Choice:
    """A program, wrong in up to two ways, or in none."""
    third = rng.choice(("stores", "stores", "doubles", ""))
    made = Choice(rng.randint(1, 4), rng.randint(1, 3), third == "stores", third == "doubles")
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        kind = rng.randrange(9)
        if kind == 0:
            made.phases[rng.choice(("full", "empty", "ready", "free"))] = 1
        elif kind == 1:
            made.missing |= {rng.choice(STEPS)}
        elif kind == 2:
            made.early |= {rng.choice(("empty", "ready", "free"))}
        elif kind == 3:
            made.pending = rng.randint(1, 2)
        elif kind == 4:
            made.shift = rng.randint(1, 2)
        elif kind == 5:
            where = rng.choice(("from", "below"))
            made.masks[rng.choice(MASKED)] = (where, rng.randint(0, made.depth))
        elif kind == 6:
            made.count = rng.choice((-1, 1))
        elif kind == 7:
            made.bytes = rng.choice((-BYTES // 2, BYTES))
        else:
            made.lag = rng.randint(1, 2)
    return made


def text(choice: Choice) -> str:
    """The TTGIR."""
    offset, lines = 0, [HEAD.rstrip()]
    outs = _outs(choice)
    lines.append(f"  tt.func public @tiles(%src: {DESC}, %dst: {DESC}, %dst2: {DESC}, %n: i32) {{")
    lines += [f"    %c{n} = arith.constant {n} : i32" for n in NUMBERS]
    lines.append("    %true = arith.constant true")
    for name, slots in (("ring", choice.depth), *((name, choice.out_depth) for name in outs)):
        lines.append(
            f"    %{name} = ttg.local_alloc {{allocation.offset = {offset} : i32}} : () -> "
            f"!ttg.memdesc<{slots}x{TILE}>"
        )
        offset += slots * BYTES
    counts = {"full": choice.depth, "empty": choice.depth}
    counts |= {"ready": choice.out_depth, "free": choice.out_depth} if choice.storing else {}
    for name, slots in counts.items():
        lines.append(
            f"    %{name} = ttg.local_alloc {{allocation.offset = {offset} : i32}} : () -> "
            f"!ttg.memdesc<{slots}x{BAR}>"
        )
        offset += 64
        number = max(1 + choice.double + choice.count, 1) if name == "empty" else 1
        for slot in range(slots):
            lines += _index(f"{name}_{slot}", name, f"%c{slot}", slots, BAR, 4)
            lines.append(f"    ttng.init_barrier %{name}_{slot}, {number} : !ttg.memdesc<{BAR}>")
    names = ["src", "dst", "dst2", "n", "ring", *outs, *counts]
    lines.append(
        f"    ttg.warp_specialize({', '.join(f'%{name}' for name in names)}) attributes "
        "{warpGroupStartIds = array<i32: 4, 8>}"
    )
    lines.append("    default {")
    lines += _loop(_doubling(choice, "out", "dst"))
    lines += _last_store(choice)
    lines += ["      ttg.warp_yield", "    }"]
    lines += _partition(choice, 0, 1, counts, _loop(_loading(choice)))
    if choice.storing:
        body = [*_loop(_storing(choice)), _STORED]
        lines += _partition(choice, 1, 1, counts, body)
    elif choice.double:
        body = [*_loop(_doubling(choice, "out2", "dst2")), *_last_store(choice)]
        lines += _partition(choice, 1, 4, counts, body)
    lines[-1] = "    } : () -> ()"
    return "\n".join([*lines, "    tt.return", "  }", "}", ""])


_STORED: Final = "      ttng.async_tma_store_wait {pendings = 0 : i32, read_only}"


def _last_store(choice: Choice) -> list[str]:
    return [] if choice.storing else [_STORED]


def _outs(choice: Choice) -> tuple[str, ...]:
    return ("out", "out2") if choice.double else ("out",)


def _partition(
    choice: Choice, number: int, warps: int, counts: dict[str, int], body: list[str]
) -> list[str]:
    return [
        f"    partition{number}({_arguments(choice, counts)}) num_warps({warps}) {{",
        *(f"      %c{n} = arith.constant {n} : i32" for n in NUMBERS),
        "      %true = arith.constant true",
        *body,
        "      ttg.warp_return",
        "    }",
    ]


def _arguments(choice: Choice, counts: dict[str, int]) -> str:
    kinds = [f"%src: {DESC}", f"%dst: {DESC}", f"%dst2: {DESC}", "%n: i32"]
    kinds += [f"%ring: !ttg.memdesc<{choice.depth}x{TILE}>"]
    kinds += [f"%{name}: !ttg.memdesc<{choice.out_depth}x{TILE}>" for name in _outs(choice)]
    kinds += [f"%{name}: !ttg.memdesc<{slots}x{BAR}>" for name, slots in counts.items()]
    return ", ".join(kinds)


def _loop(body: list[str]) -> list[str]:
    return [
        "      scf.for %i = %c0 to %n step %c1  : i32 {",
        "        %row = arith.muli %i, %c32 : i32",
        *(f"        {one}" for one in body),
        "      }",
    ]


def _index(result: str, of: str, at: str, slots: int, kind: str, indent: int = 0) -> list[str]:
    types = f"!ttg.memdesc<{slots}x{kind}> -> !ttg.memdesc<{kind}>"
    return [" " * indent + f"%{result} = ttg.memdesc_index %{of}[{at}] : {types}"]


def _turn(name: str, depth: int, shift: int = 0) -> list[str]:
    """The slot and the phase of an iteration."""
    return [
        f"%{name}_i = arith.addi %i, %c{shift} : i32",
        f"%{name}_s = arith.remsi %{name}_i, %c{depth} : i32",
        f"%{name}_q = arith.divsi %i, %c{depth} : i32",
        f"%{name}_p = arith.andi %{name}_q, %c1 : i32",
        f"%{name}_n = arith.xori %{name}_p, %c1 : i32",
    ]


def _mask(choice: Choice, name: str) -> tuple[list[str], str]:
    """The lines of an operation's predicate, and its name."""
    if name not in choice.masks:
        return [], "%true"
    where, number = choice.masks[name]
    if where == "from":
        return [f"%{name}_m = arith.cmpi sge, %i, %c{number} : i32"], f"%{name}_m"
    return [
        f"%{name}_l = arith.subi %n, %c{number} : i32",
        f"%{name}_m = arith.cmpi slt, %i, %{name}_l : i32",
    ], f"%{name}_m"


def _wait(choice: Choice, name: str, turn: str, depth: int, lag: int) -> list[str]:
    if name in choice.missing:
        return []
    phase = f"%{turn}_n" if (lag + choice.phases.get(name, 0)) % 2 else f"%{turn}_p"
    return [
        *_index(f"{name}_b", name, f"%{turn}_s", depth, BAR),
        f"ttng.wait_barrier %{name}_b, {phase}, %true : !ttg.memdesc<{BAR}>",
    ]


def _arrive(choice: Choice, name: str, turn: str, depth: int) -> list[str]:
    if "arrive" in choice.missing and name == "empty":
        return []
    mask, holds = _mask(choice, name)
    return [
        *mask,
        *_index(f"{name}_a", name, f"%{turn}_s", depth, BAR),
        f"ttng.arrive_barrier %{name}_a, 1, {holds} : !ttg.memdesc<{BAR}>",
    ]


def _fence(choice: Choice, name: str) -> list[str]:
    return [] if name in choice.missing else ["ttng.fence_async_shared {bCluster = false}"]


def _meet(choice: Choice, name: str) -> list[str]:
    return [] if name in choice.missing else ["ttg.barrier local"]


def _loading(choice: Choice) -> list[str]:
    mask, holds = _mask(choice, "load")
    return [
        *_turn("r", choice.depth),
        *_turn("f", choice.depth, choice.lag),
        *_wait(choice, "empty", "r", choice.depth, 1),
        *mask,
        *_index("to", "ring", "%f_s", choice.depth, TILE),
        *_index("full_b", "full", "%f_s", choice.depth, BAR),
        f"ttng.barrier_expect %full_b, {BYTES + choice.bytes}, {holds} : !ttg.memdesc<{BAR}>",
        "ttg.barrier local",
        f"ttng.async_tma_copy_global_to_local %src[%row, %c0] %to, %full_b, {holds} : {DESC}, "
        f"!ttg.memdesc<{BAR}> -> !ttg.memdesc<{TILE}>",
    ]


def _doubling(choice: Choice, out: str, target: str) -> list[str]:
    read = [
        *_index("from", "ring", "%x_s", choice.depth, TILE),
        f"%value = ttg.local_load %from : !ttg.memdesc<{TILE}> -> tensor<32x64xf32, #blocked>",
        *_fence(choice, "fence_read"),
    ]
    empty = _arrive(choice, "empty", "r", choice.depth)
    made = [
        *_turn("r", choice.depth),
        *_turn("x", choice.depth, choice.shift),
        *_turn("o", choice.out_depth),
        *_wait(choice, "full", "r", choice.depth, 0),
        *([*empty, *read] if "empty" in choice.early else [*read, *empty]),
        "%more = arith.addf %value, %value : tensor<32x64xf32, #blocked>",
        *_index("into", out, "%o_s", choice.out_depth, TILE),
    ]
    write = [
        f"ttg.local_store %more, %into : tensor<32x64xf32, #blocked> -> !ttg.memdesc<{TILE}>",
        *_fence(choice, "fence_write"),
    ]
    if choice.storing:
        ready = _arrive(choice, "ready", "o", choice.out_depth)
        made += _wait(choice, "free", "o", choice.out_depth, 1)
        return [*made, *([*ready, *write] if "ready" in choice.early else [*write, *ready])]
    pending = choice.out_depth - 1 + choice.pending
    wait = f"ttng.async_tma_store_wait {{pendings = {pending} : i32, read_only}}"
    made += [] if "store_wait" in choice.missing else [wait, *_meet(choice, "meet_wait")]
    return [*made, *write, *_meet(choice, "meet_store"), _store(target)]


def _store(target: str) -> str:
    return (
        f"ttng.async_tma_copy_local_to_global %{target}[%row, %c0] %into : {DESC}, "
        f"!ttg.memdesc<{TILE}>"
    )


def _storing(choice: Choice) -> list[str]:
    free = _arrive(choice, "free", "o", choice.out_depth)
    store = [*_index("into", "out", "%o_s", choice.out_depth, TILE), _store("dst")]
    wait = [f"ttng.async_tma_store_wait {{pendings = {choice.pending} : i32, read_only}}"]
    read = [*store, *([] if "store_wait" in choice.missing else wait)]
    return [
        *_turn("o", choice.out_depth),
        *_wait(choice, "ready", "o", choice.out_depth, 0),
        *([*free, *read] if "free" in choice.early else [*read, *free]),
    ]
