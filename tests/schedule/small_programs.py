"""Random small procedures to rewrite: of all types, with guards, windows, empty loops, and sums
whose target is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

FLOATS = ("f32", "f64", "f16")
INTEGERS = ("i32", "i8", "ui8", "i64")


@dataclass
class _Maker:
    random: Random
    integers: bool
    lines: list[str] = field(default_factory=list)
    scalars: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    window: bool = False

    def say(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def one_of(self, *words: str) -> str:
        return self.random.choice(words)

    # --- indices: each within 0 .. n + 3 for every n from 0 on ------------------------------

    def index(self, known: list[tuple[str, str]]) -> str:
        if not known or self.random.random() < 0.15:
            return self.one_of("0", "1", "2", "n")
        name, kind = self.random.choice(known)
        if kind == "n":  # from 0 to n
            return self.one_of(
                f"{name}", f"{name} + 1", f"{name} + 2", f"{name} / 2", f"n - {name}",
                f"{name} % 3", f"2 * ({name} / 2)", f"({name} + 1) / 2",
            )  # fmt: skip
        if kind == "below":  # from -1 to n
            return self.one_of(f"{name} + 1", f"{name} + 2", f"({name} + 1) / 2", f"{name} % 2")
        return self.one_of(f"{name} % 3", f"{name} / 2", f"{name} % 2 + 1")  # from 0 to 3

    def element(self, known: list[tuple[str, str]]) -> str:
        kinds = ["x", "y", "y", *("w" * self.window), *self.rows]
        array = self.random.choice(kinds)
        if array == "x":
            return f"x[{self.index(known)}, {self.index(known)}]"
        return f"{array}[{self.index(known)}]"

    # --- values -----------------------------------------------------------------------------

    def leaf(self, known: list[tuple[str, str]]) -> str:
        if self.scalars and self.random.random() < 0.4:
            return self.random.choice(self.scalars)
        if self.random.random() < 0.2:
            return self.one_of("0", "1", "2", "3")
        return self.element(known)

    def value(self, known: list[tuple[str, str]], depth: int) -> str:
        if depth == 0 or self.random.random() < 0.4:
            return self.leaf(known)
        one, two = self.value(known, depth - 1), self.value(known, depth - 1)
        kinds = ["+", "+", "+", "*", "-", "max", "select", "negate"]
        match self.random.choice([*kinds, "/"] if self.integers else kinds):
            case "max":
                return f"{self.one_of('max', 'min')}({one}, {two})"
            case "select":
                return f"select({self.leaf(known)}, {self.leaf(known)}, {one}, {two})"
            case "negate":
                return f"-({one})"
            case "/":
                return f"({one}) / {self.one_of('2', '3')}"
            case op:
                return f"({one}) {op} ({two})"

    def statement(self, depth: int, known: list[tuple[str, str]]) -> None:
        target = self.element(known)
        if self.scalars and self.random.random() < 0.3:
            target = self.random.choice(self.scalars)
        op = self.one_of("=", "+=", "+=")
        value = self.value(known, 2)
        match self.random.randrange(8):
            case 0:
                value = f"{target} + {value}"
            case 1:
                value = f"{self.leaf(known)} + ({self.leaf(known)} + {self.leaf(known)})"
            case 2:
                self.say(depth, f"{target} {op} {value}")
                value, op = self.value(known, 1), self.one_of("=", "+=")
        self.say(depth, f"{target} {op} {value}")

    # --- statements -------------------------------------------------------------------------

    def pattern(self, depth: int, known: list[tuple[str, str]]) -> None:
        """Statements that some step is made for."""
        element, other = f"y[{self.index(known)}]", f"x[{self.index(known)}, {self.index(known)}]"
        match self.random.randrange(5):
            case 0:  # a sum of products from zero
                self.say(depth, f"{element} = 0")
                self.say(depth, f"for s in seq({self.one_of('0', '1')}, n):")
                factor = self.one_of(other, "3", "y[s]")
                self.say(depth + 1, f"{element} += {factor} * x[s, {self.index(known)}]")
            case 1:  # two loops, one after the other
                at = self.one_of("2", "n", "n + 1")
                body = f"y[s] {self.one_of('=', '+=')} {self.leaf(known)}"
                for lo, hi in (("0", at), (self.one_of(at, "0"), self.one_of("n + 2", at))):
                    self.say(depth, f"for s in seq({lo}, {hi}):")
                    self.say(depth + 1, body)
            case 2:  # a guard twice
                guard = self.guard(known)
                for _ in range(2):
                    self.say(depth, f"if {guard}:")
                    self.statement(depth + 1, known)
            case 3:  # two rows of constant number
                self.say(depth, f"p: {self.kind()}[2, 3] @ DRAM")
                self.say(depth, f"p[0, {self.one_of('0', '1')}] = {self.leaf(known)}")
                self.say(depth, f"p[{self.one_of('0', '1')}, 1] = {self.leaf(known)}")
                self.say(depth, f"{element} {self.one_of('=', '+=')} p[0, 1] + 1")
            case _:  # one after the other
                self.say(depth, f"a: {self.kind()} @ DRAM")
                self.say(depth, f"a = {self.leaf(known)}")
                self.say(depth, f"{element} += a")
                self.say(depth, f"b: {self.kind()} @ DRAM")
                self.say(depth, f"b = {other}")
                self.say(depth, f"{self.element(known)} += b")

    def guard(self, known: list[tuple[str, str]]) -> str:
        name = self.random.choice(known)[0] if known else "n"
        return self.one_of(
            f"{name} < 2", f"{name} >= 1", f"{name} == n - 1", f"{name} % 2 == 0", f"n > {name} + 1"
        )

    def block(self, depth: int, known: list[tuple[str, str]], nest: int) -> None:
        name = "ijkl"[len(known)]
        lo, hi, kind = self.random.choice(
            [
                ("0", "n", "n"), ("0", "n", "n"), ("0", "n + 1", "n"), ("1", "n", "n"),
                ("0", "n - 1", "n"), ("-1", "n", "below"), ("0", "n / 2", "n"), ("0", "4", "few"),
                ("0", "3", "few"), ("0", "1", "few"), ("n / 2", "n", "n"), ("0", "0", "few"),
            ]
        )  # fmt: skip
        if kind == "few" and hi == "0" and self.random.random() < 0.7:
            hi = "2"
        start, count = len(self.lines), len(self.scalars)
        rows = len(self.rows)
        self.say(depth, f"for {name} in seq({lo}, {hi}):")
        inner = [*known, (name, kind)]
        if self.random.random() < 0.35:
            scalar = f"t{depth}"
            self.say(depth + 1, f"{scalar}: {self.kind()} @ DRAM")
            self.say(depth + 1, f"{scalar} = {self.value(inner, 1)}")
            self.scalars.append(scalar)
        alone = nest > 1 and self.random.random() < 0.3  # a perfect nest
        for _ in range(0 if alone else self.random.randrange(1, 3)):
            if self.random.random() < 0.15:
                self.pattern(depth + 1, inner)
            elif self.random.random() < 0.25:
                self.say(depth + 1, f"if {self.guard(inner)}:")
                self.statement(depth + 2, inner)
                if self.random.random() < 0.3:
                    self.say(depth + 1, "else:")
                    self.statement(depth + 2, inner)
            else:
                self.statement(depth + 1, inner)
        if nest > 1:
            self.block(depth + 1, inner, nest - 1)
        del self.scalars[count:], self.rows[rows:]
        if self.random.random() < 0.15:
            self.lines += self.lines[start:]

    def kind(self) -> str:
        return self.random.choice(INTEGERS if self.integers else FLOATS[:2])

    def made(self) -> str:
        # In f16 and f32 sums of small whole numbers soon round: these are left to the tests.
        kinds = [self.kind() for _ in range(2)]
        self.say(0, "@proc")
        x, y = f"x: {kinds[0]}[n + 4, n + 4] @ DRAM", f"y: {kinds[1]}[n + 4] @ DRAM"
        self.say(0, f"def f(n: size, {x}, {y}):")
        least = self.one_of("n >= 0", "n >= 1", "n >= 2", "n % 2 == 0")
        self.say(1, f"assert {least}")
        if self.random.random() < 0.25:
            self.say(1, f"w = {self.one_of('x[0:n + 4, 1]', 'x[n, 0:n + 4]')}")
            self.window = True
        if self.random.random() < 0.3:
            self.say(1, f"r: {self.kind()}[n + 4] @ DRAM")
            self.say(1, "for z in seq(0, n + 4):")
            self.say(2, f"r[z] = {self.one_of('0', '1', 'y[z]', 'x[z, 0]')}")
            self.rows.append("r")
        for _ in range(self.random.choice([1, 1, 2])):
            self.block(1, [], self.random.randrange(1, 3))
        return "\n".join(self.lines) + "\n"


def small_program(random: Random) -> str:
    """A few loops over two arrays, in bounds for every size; its data are all of floating point, or
    all integers."""
    return _Maker(random, random.random() < 0.5).made()
