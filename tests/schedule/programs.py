"""Random procedures to schedule, and to compare."""

from __future__ import annotations

from random import Random

HEAD = "@proc\ndef f(n: size, x: f32[n + 3, n + 3] @ DRAM, y: f32[n + 3] @ DRAM):\n"


def program(random: Random) -> str:
    """A few loops over two arrays and a scalar or a row, in bounds for every size."""
    lines: list[str] = []
    count = random.randrange(1, 3)
    for _ in range(count):
        block(random, lines, 1, [], random.randrange(1, 3))
    return HEAD + "\n".join(lines) + "\n"


def block(random: Random, lines: list[str], depth: int, known: list[str], nest: int) -> None:
    indent = "    " * depth
    name = "ijkl"[depth - 1]
    hi = random.choice(["n", "n", "n", "4", "3", "1"])
    start = len(lines)
    lines.append(f"{indent}for {name} in seq(0, {hi}):")
    inside = [*known, name if hi == "n" else f"{name} % 3"]
    inner = indent + "    "
    local = random.random() < 0.4
    if local:
        lines.append(f"{inner}t: f32 @ DRAM")
        lines.append(f"{inner}t = {read(random, inside, False)}")
    for _ in range(random.randrange(1, 3)):
        if random.random() < 0.25:
            variable = random.choice(inside)
            lines.append(f"{inner}if {variable} {random.choice(['<', '>=', '=='])} 2:")
            lines.append(f"{inner}    {statement(random, inside, local)}")
        else:
            lines.append(inner + statement(random, inside, local))
    if nest > 1:
        block(random, lines, depth + 1, inside, nest - 1)
    if random.random() < 0.2:  # for what makes one loop of two
        lines += lines[start:]


def statement(random: Random, known: list[str], local: bool) -> str:
    target = element(random, known)
    if local and random.random() < 0.2:
        target = "t"
    op = random.choice(["=", "+=", "+="])
    return f"{target} {op} {read(random, known, local)}"


def read(random: Random, known: list[str], local: bool) -> str:
    if local and random.random() < 0.5:
        return f"t + {random.randrange(3)}"
    return random.choice([element(random, known), f"{random.randrange(4)}"])


def element(random: Random, known: list[str]) -> str:
    def index() -> str:
        return f"{random.choice([*known, '0'])} + {random.randrange(3)}"

    return random.choice([f"y[{index()}]", f"x[{index()}, {index()}]"])
