"""Mutants of TTGIR: each has one synchronisation left out, weakened, or turned around."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
)
_WEAKENED = (
    ("ttng.warp_group_dot_wait", r"pendings = (\d+)"),
    ("ttng.async_tma_store_wait", r"pendings = (\d+)"),
    ("ttg.async_wait", r"num = (\d+)"),
)


def mutants(text: str) -> Iterator[Mutant]:
    """All mutants of a kernel."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        name = re.search(r"\b(tt[ng]*g?\.\w+)", line)
        if name is None or line.startswith(("#", "module")):
            continue
        for what, changed in _changes(name[1], line):
            kept = [*lines[:at], *changed, *lines[at + 1 :]]
            yield Mutant(f"{what} {name[1]}", at + 1, "\n".join(kept))


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
        yield "fewer bytes", [re.sub(r", (\d+),", lambda m: f", {int(m[1]) // 2},", line)]
    if name == "ttng.init_barrier":
        yield "count of", [re.sub(r", (\d+) :", lambda m: f", {int(m[1]) + 1} :", line)]


def _flipped(line: str) -> list[str]:
    """The wait for the other phase."""
    found = re.match(r"(\s*)ttng\.wait_barrier (%\S+), (%\S+), (.*)", line)
    assert found is not None
    indent, barrier, phase, rest = found.groups()
    location = " loc(unknown)"
    return [
        f"{indent}%one_{abs(hash(line)) % 9999} = arith.constant 1 : i32{location}",
        f"{indent}%other_{abs(hash(line)) % 9999} = arith.xori {phase}, "
        f"%one_{abs(hash(line)) % 9999} : i32{location}",
        f"{indent}ttng.wait_barrier {barrier}, %other_{abs(hash(line)) % 9999}, {rest}",
    ]
