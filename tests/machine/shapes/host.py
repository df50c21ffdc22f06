"""The CPU part of procedures: memory of the host that the stream copies from and to.

Arrays are declared in loops, under conditions and in called procedures.  The CPU writes and reads
them, the stream copies them to the device and back, and Fences of the CPU stand in between: too
few, too many, or in the wrong place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.machine.shapes.sources import HEAD

DEPTH = 2
"""How deep loops and conditions are nested."""


@dataclass
class _Scope:
    """What can be named at a statement."""

    arrays: list[str]
    iterators: list[str] = field(default_factory=list)
    callee: bool = False

    def inner(self, *iterators: str) -> _Scope:
        return _Scope([*self.arrays], [*self.iterators, *iterators], self.callee)


def host(random: Random) -> str:
    """A file whose last procedure has memory of its own on the host."""
    found = [HEAD]
    called = random.random() < 0.4
    if called:
        found += _procedure(random, "inner", "n: size, x: f32[n, 4] @ CudaGmemLinear", "n", False)
    size = "K: size, x: f32[K, 4] @ CudaGmemLinear, h: f32[K, 4] @ DRAM"
    found += _procedure(random, "outer", size, "K", called)
    return "\n".join(found) + "\n"


def _procedure(random: Random, name: str, params: str, size: str, calls: bool) -> list[str]:
    scope = _Scope(["h"] if size == "K" else [], callee=size != "K")
    body = _block(random, scope, size, DEPTH, calls)
    return ["", "@proc", f"def {name}({params}):", f"    assert {size} >= 0", *body]


def _block(random: Random, scope: _Scope, size: str, depth: int, calls: bool) -> list[str]:
    """Statements, each in the indentation of the depth."""
    found = []
    for _ in range(random.choice((1, 2, 3, 3, 4))):
        found += _statement(random, scope, size, depth, calls)
    return ["    " + line for line in found or ["pass"]]


def _statement(random: Random, scope: _Scope, size: str, depth: int, calls: bool) -> list[str]:
    kind = random.choice(
        ("alloc", "alloc", "in", "in", "out", "out", "cpu", "cpu", "fence", "fence", "loop", "if")
        + (("call",) if calls else ())
    )
    row = random.choice([*scope.iterators, *scope.iterators, ""])
    if kind == "call":
        return [f"inner({size}, x[:, :])"]
    if kind in ("loop", "if") and depth == 0:
        kind = "fence"
    match kind:
        case "alloc":
            name = f"t{len(scope.arrays)}"
            scope.arrays.append(name)
            return [f"{name}: f32[{size}, 4] @ DRAM"]
        case "fence":
            pairs = (("cuda_stream_sync", "cpu_in_order"),) * 3
            first, second = random.choice((*pairs, ("cpu_in_order", "cuda_stream_sync")))
            return [f"Fence({first}, {second})"]
        case "loop":
            name = f"i{len(scope.iterators)}"
            body = _block(random, scope.inner(name), size, depth - 1, calls)
            return [f"for {name} in seq(0, {size}):", *body]
        case "if":
            known = random.choice([*scope.iterators, size])
            body = _block(random, scope.inner(), size, depth - 1, calls)
            return [f"if {known} % 2 == 0:", *body]
        case _:
            return _access(random, scope, size, kind, row)


def _access(random: Random, scope: _Scope, size: str, kind: str, row: str) -> list[str]:
    """A copy by the stream, or a statement of the CPU, on a row or all rows of an array."""
    if not scope.arrays:
        return ["Fence(cuda_stream_sync, cpu_in_order)"]
    name = random.choice(scope.arrays)
    n, at = "4", row
    if not row:
        at, loop = "r", [f"for r in seq(0, {size}):"]
    else:
        loop = []
    indent = "    " if loop else ""
    match kind:
        case "in":
            text = f"cuda_memcpy_to_device({n}, x[{at}, :], {name}[{at}, :])"
        case "out":
            text = f"cuda_memcpy_to_host({n}, {name}[{at}, :], x[{at}, :])"
        case _:
            value = random.choice((f"{random.choice(scope.arrays)}[{at}, 0]", "1.0"))
            text = f"{name}[{at}, {random.randrange(4)}] {random.choice(('=', '+='))} {value}"
    return [*loop, indent + text]
