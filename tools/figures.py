"""Figures of the house: how much there is to read, and how it is named.

    python tools/figures.py [-v]

Each row is a measure of the package or of the pages, and the number that is aimed at.  With -v the
files that a row counts are named.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.prose import handwritten, sentences  # noqa: E402
from tests.test_names import package_files, riddles_of  # noqa: E402

PARAMETERS = 9
SHORT, LONG = 60, 400


@dataclass(frozen=True)
class Row:
    """One measure: its value, its aim, and what it counts."""

    measure: str
    value: float
    aim: float
    named: tuple[str, ...] = ()

    def line(self) -> str:
        """The row as text; a star marks an aim that is missed."""
        star = "" if self.value <= self.aim else "*"
        return f"{self.measure:<52}{self.value:>10,.0f}{self.aim:>10,.0f} {star}"


class _Package:
    """The modules of the package, parsed."""

    def __init__(self) -> None:
        self.files = {str(file.relative_to(ROOT)): file for file in package_files()}
        self.lines = {name: file.read_text().splitlines() for name, file in self.files.items()}

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        return {name: ast.parse("\n".join(lines)) for name, lines in self.lines.items()}

    def nodes(self) -> Iterator[tuple[str, ast.AST]]:
        """Every node of every module, with the module's name."""
        for name, tree in self.trees.items():
            for node in ast.walk(tree):
                yield name, node


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    found = function.args
    several = (*found.posonlyargs, *found.args, *found.kwonlyargs)
    return len(several) + (found.vararg is not None) + (found.kwarg is not None)


def _is_type_assertion(node: ast.AST) -> bool:
    match node:
        case ast.Assert(test=ast.Call(func=ast.Name(id="isinstance"))):
            return True
        case _:
            return False


def rows_of_package() -> Iterator[Row]:
    """The measures of the package."""
    package = _Package()
    sizes = {name: len(lines) for name, lines in package.lines.items()}
    yield Row("modules", len(sizes), 360)
    yield Row("lines", sum(sizes.values()), 82_000)
    imports = sum(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for _, node in package.nodes()
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    yield Row("lines of imports", imports, 4_500)
    short = tuple(sorted(name for name, size in sizes.items() if size < SHORT))
    yield Row(f"files under {SHORT} lines", len(short), 20, short)
    long = tuple(sorted(name for name, size in sizes.items() if size > LONG))
    yield Row(f"files over {LONG} lines", len(long), 5, long)
    names = Counter(Path(name).name for name in sizes)
    twice = tuple(sorted(name for name, count in names.items() if count > 1))
    yield Row("file names used more than once", len(twice), 15, twice)
    wide = tuple(
        f"{name}: {node.name}"
        for name, node in package.nodes()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and _parameters(node) >= PARAMETERS
    )
    yield Row(f"functions with {PARAMETERS} or more parameters", len(wide), 10, wide)
    asserted = sum(_is_type_assertion(node) for _, node in package.nodes())
    yield Row("assertions of a type", asserted, 40)
    riddles = tuple(
        f"{name}: {function}"
        for name, file in package.files.items()
        for function in sorted(riddles_of(file))
    )
    yield Row("functions whose name says nothing alone", len(riddles), 0, riddles)
    tests = {file.name for file in (ROOT / "tests").rglob("test_*.py")}
    without = tuple(name for name in sizes if f"test_{Path(name).name}" not in tests)
    yield Row("modules without a test file of their name", len(without), len(sizes) / 10, without)


def rows_of_pages() -> Iterator[Row]:
    """The measures of README and of the pages that are written by hand."""
    readme = (ROOT / "README.md").read_text()
    yield Row("words of README", len(readme.split()), 900)
    pages = {file.name: file.read_text() for file in sorted((ROOT / "docs").glob("*.md"))}
    counts = {name: handwritten(text) for name, text in pages.items() if name != "lowering.md"}
    largest = tuple(
        f"{name}: {counts[name]:,}" for name in sorted(counts, key=lambda n: -counts[n])
    )
    yield Row("words of the pages, by hand", sum(counts.values()), 45_000, largest)
    lengths = [length for text in (readme, *pages.values()) for length in sentences(text)]
    yield Row("mean words of a sentence", sum(lengths) / len(lengths), 18)
    yield Row("words of the longest sentence", max(lengths), 35)


def main() -> None:
    """Prints the table."""
    print(f"{'measure':<52}{'now':>10}{'aim':>10}")
    for row in (*rows_of_package(), *rows_of_pages()):
        print(row.line().rstrip())
        if "-v" in sys.argv[1:]:
            for name in row.named:
                print(f"    {name}")


if __name__ == "__main__":
    main()
