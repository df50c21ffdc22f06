"""Mutants of TTGIR: each has one synchronisation left out, weakened, or turned around; or another
slot, mask, tile or trip count."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A changed text, and what was changed at which of its lines."""

    what: str
    line: int
    text: str


_LEFT_OUT = (
    "ttg.barrier",
    "ttng.fence_async_shared",
    "ttng.wait_barrier",
    "ttng.arrive_barrier",
    "ttng.async_tma_store_wait",
    "ttng.inval_barrier",
)
_WEAKENED = (
    ("ttng.warp_group_dot_wait", r"pendings = (\d+)"),
    ("ttng.async_tma_store_wait", r"pendings = (\d+)"),
    ("ttg.async_wait", r"num = (\d+)"),
)
_OPERATION = re.compile(r"\b(tt[ng]*g?\.\w+|scf\.for)\b")
_HERE = " loc(unknown)"


def mutants(text: str) -> Iterator[Mutant]:
    """All mutants of a kernel."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        name = _OPERATION.search(line)
        if name is None or line.startswith(("#", "module")):
            continue
        for what, changed in _changes(name[1], line):
            kept = [*lines[:at], *changed, *lines[at + 1 :]]
            yield Mutant(f"{what} {name[1]}", at + 1, "\n".join(kept))
        if name[1] == "ttg.async_commit_group":
            yield Mutant(f"without {name[1]}", at + 1, "\n".join(_uncommitted(lines, at)))
        if name[1] == "ttng.arrive_barrier" and (early := _early(lines, at)):
            yield Mutant("early ttng.arrive_barrier", at + 1, "\n".join(early))


def _changes(name: str, line: str) -> Iterator[tuple[str, list[str]]]:
    if name in _LEFT_OUT:
        yield "without", []
    for weak, pattern in _WEAKENED:
        if name == weak:
            more = re.sub(pattern, lambda m: m[0].replace(m[1], str(int(m[1]) + 1)), line)
            yield "weaker", [more]
    if name == "ttng.wait_barrier":
        yield "flipped", _flipped(line)
    if name == "ttng.barrier_expect":
        for what, times in (("fewer bytes", 0.5), ("more bytes", 2.0)):
            yield what, [re.sub(r", (\d+),", lambda m, t=times: f", {int(int(m[1]) * t)},", line)]
    if name == "ttng.init_barrier":
        yield "count of", [re.sub(r", (\d+) :", lambda m: f", {int(m[1]) + 1} :", line)]
    if name == "ttg.memdesc_index":
        yield from _slots(line)
    if name == "ttng.async_tma_copy_local_to_global":
        yield from _tiles(line)
    if name in (
        "ttng.barrier_expect",
        "ttng.arrive_barrier",
        "ttng.async_tma_copy_global_to_local",
    ):
        yield from _masks(line)
    if name == "scf.for":
        yield from _trips(line)


def _flipped(line: str) -> list[str]:
    """The wait for the other phase."""
    found = re.match(r"(\s*)ttng\.wait_barrier (%\S+), (%[\w$.#-]+)(.*)", line)
    assert found is not None
    indent, barrier, phase, rest = found.groups()
    one, other = f"%one_{len(line)}", f"%flipped_{len(line)}"
    return [
        f"{indent}{one} = arith.constant 1 : i32{_HERE}",
        f"{indent}{other} = arith.xori {phase}, {one} : i32{_HERE}",
        f"{indent}ttng.wait_barrier {barrier}, {other}{rest}",
    ]


def _slots(line: str) -> Iterator[tuple[str, list[str]]]:
    """The next slot, the first one each time, and one past the last."""
    found = re.match(
        r"(\s*)(%\S+ = ttg\.memdesc_index %\S+\[)(%[\w$.#-]+)(\] : !ttg\.memdesc<(\d+)x.*)", line
    )
    if found is None:
        return
    indent, head, slot, rest, slots = found.groups()
    made = f"%slot_{len(line)}"
    constants = [
        f"{indent}{made}_1 = arith.constant 1 : i32{_HERE}",
        f"{indent}{made}_n = arith.constant {slots} : i32{_HERE}",
        f"{indent}{made}_0 = arith.constant 0 : i32{_HERE}",
        f"{indent}{made}_a = arith.addi {slot}, {made}_1 : i32{_HERE}",
        f"{indent}{made}_b = arith.remsi {made}_a, {made}_n : i32{_HERE}",
    ]
    for what, name in (("next slot", "_b"), ("slot past", "_a"), ("first slot", "_0")):
        if not (what == "first slot" and slot.startswith("%c0")):
            yield what, [*constants, f"{indent}{head}{made}{name}{rest}"]


def _tiles(line: str) -> Iterator[tuple[str, list[str]]]:
    """Two programs, or iterations, that store one tile: a coordinate halved, or always 0."""
    found = re.match(r"(\s*)(ttng\.\w+ %\S+?\[)(.*?)(\].*)", line)
    assert found is not None
    indent, head, coordinates, rest = found.groups()
    made = f"%tile_{len(line)}"
    constants = [
        f"{indent}{made}_0 = arith.constant 0 : i32{_HERE}",
        f"{indent}{made}_2 = arith.constant 2 : i32{_HERE}",
    ]
    names = coordinates.split(", ")
    for at, name in enumerate(names):
        if name.startswith("%c0"):
            continue
        half = f"{indent}{made}_h = arith.divsi {name}, {made}_2 : i32{_HERE}"
        for what, by in (("half tile", f"{made}_h"), ("one tile", f"{made}_0")):
            inside = ", ".join([*names[:at], by, *names[at + 1 :]])
            yield f"{what} {at}", [*constants, half, f"{indent}{head}{inside}{rest}"]


def _masks(line: str) -> Iterator[tuple[str, list[str]]]:
    """An operation whose predicate always holds."""
    found = re.match(r"(\s*)(ttng\.\w+ %[^:]*, )(%[\w$.#-]+)( :.*)", line)
    if found is None or found[3].startswith("%true"):
        return
    indent, head, _, rest = found.groups()
    true = f"%true_{len(line)}"
    yield "always", [f"{indent}{true} = arith.constant true{_HERE}", f"{indent}{head}{true}{rest}"]


def _trips(line: str) -> Iterator[tuple[str, list[str]]]:
    """A loop with one iteration more, one fewer, and without its first."""
    found = re.match(r"(\s*)(.*scf\.for %\S+ = )(%\S+) to (%\S+) step (%\S+)(.* : (\w+) \{)", line)
    assert found is not None
    indent, head, low, high, step, rest, kind = found.groups()
    for what, made, first, last in (
        ("one more turn", f"arith.addi {high}, {step}", low, "%bound"),
        ("one turn fewer", f"arith.subi {high}, {step}", low, "%bound"),
        ("no first turn", f"arith.addi {low}, {step}", "%bound", high),
    ):
        bound = f"{indent}%bound = {made} : {kind}{_HERE}"
        yield what, [bound, f"{indent}{head}{first} to {last} step {step}{rest}"]


def _uncommitted(lines: Sequence[str], at: int) -> list[str]:
    """The lines without a commit, whose token becomes that of its copy."""
    found = re.match(r"\s*(%\S+) = ttg\.async_commit_group(?: tokens (%[\w$.#-]+))?", lines[at])
    assert found is not None
    token, copied = found.groups()
    uses = re.compile(rf"{re.escape(token)}(?![\w$.#-])")
    left = [*lines[:at], *lines[at + 1 :]]
    return [uses.sub(copied, line) for line in left] if copied else left


def _early(lines: Sequence[str], at: int) -> list[str]:
    """The lines with the last read before an arrival moved after it; empty where there is none."""
    indent = len(lines[at]) - len(lines[at].lstrip())
    for before in range(at - 1, -1, -1):
        line = lines[before]
        if len(line) - len(line.lstrip()) < indent:
            return []
        if "ttg.local_load" in line or "ttng.async_tma_store_wait" in line:
            return [*lines[:before], *lines[before + 1 : at + 1], line, *lines[at + 1 :]]
    return []
