"""The first sentence of a docstring says what a thing is or does: it begins with no question word.

What is read of a load.         ->  Returns the variables that a load reads.
Whether a site is an access.    ->  Tests whether a site is an access.
Of wgmma.mma_async.             ->  The shape of wgmma.mma_async.
"""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("exogpu", "symbolic", "codegen", "campaigns", "benchmarks", "tools")
FORBIDDEN = {
    *("What", "Whether", "Of", "That", "Where", "How", "Which"),
    *("Why", "Who", "Whom", "Whose", "When", "If", "Those"),
}

OF_ATTRIBUTES = FORBIDDEN - {"Where", "Why", "Who", "Whom", "Whose", "When", "If"}
"""Words that no docstring after an assignment begins with."""


def faults(text: str) -> Iterator[int]:
    """Yields the lines of definitions whose docstring begins with a forbidden word."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                first = re.match(r"\W*(\w+)", ast.get_docstring(node) or "")
                if first is not None and first[1] in FORBIDDEN:
                    yield node.body[0].lineno
    yield from _faults_of_attributes(tree)


def _faults_of_attributes(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for before, stmt in pairwise(body if isinstance(body, list) else ()):
            match before, stmt:
                case ast.Assign() | ast.AnnAssign(), ast.Expr(ast.Constant(str(said))):
                    if re.match(r"\W*(\w*)", said)[1] in OF_ATTRIBUTES:
                        yield stmt.lineno


def room_of(path: Path) -> str:
    """Returns a package, or a folder of one: `exogpu/ir`."""
    return "/".join(path.relative_to(ROOT).parts[:-1][:2])


def test_docstrings_say_what_a_thing_does() -> None:
    found: dict[str, list[str]] = {}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            for line in faults(path.read_text(encoding="utf-8")):
                found.setdefault(room_of(path), []).append(f"{path.relative_to(ROOT)}:{line}")
    assert not found, f"begin these docstrings with what the thing is or does: {found}"


@pytest.mark.parametrize("word", sorted(FORBIDDEN))
def test_a_forbidden_word_is_found(word: str) -> None:
    text = f'"""A module."""\n\nclass A:\n    """{word} is it."""\n\n    async def b(self):\n'
    text += f'        """\n        {word}, so.\n        """\n'
    assert [*faults(text)] == [4, 7]


@pytest.mark.parametrize("word", sorted(OF_ATTRIBUTES))
def test_a_forbidden_word_after_an_assignment_is_found(word: str) -> None:
    text = f'class A:\n    b: int = 0\n    """{word} it is."""\n\nC = 1\n"""{word} it is."""\n'
    assert [*faults(text)] == [6, 3]


def test_other_sentences_pass() -> None:
    text = '"""Whatever is read."""\n\ndef a():\n    """Tests whether it is read."""\n'
    assert not [*faults(text)]
