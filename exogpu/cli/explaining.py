"""`exogpu explain NAME`: a code, a hazard, a timeline, a word of the language, an instruction."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from textwrap import fill
from typing import Final

from rich.text import Text

from exogpu import isa
from exogpu.cli.render import draw_code
from exogpu.explain.words import CODES as CODE_OF
from exogpu.frontend.instructions import InstructionTemplate
from exogpu.frontend.reference import WORDS, Word
from exogpu.hw.accesses import explained, known_names
from exogpu.result.codes import CODES

MODULES: Final = tuple(f"exogpu.isa.{one.name}" for one in iter_modules(isa.__path__))
"""The modules whose instructions are explained."""


def draw_name(name: str) -> Text | None:
    """Explains a name of a message or of the language; None for a name that neither has."""
    code = {kind.value: of for kind, of in CODE_OF.items()}.get(name.upper(), name.upper())
    if code in CODES:
        return draw_code(code, CODES[code])
    if (word := WORDS.get(name)) is not None:
        return _draw_word(name, word)
    if (template := _instruction(name)) is not None:
        return Text(f"{template.__doc__}\n")
    timeline = explained(name)
    if timeline is None:
        return None
    title, lines = timeline
    text = Text.assemble((f"{title}\n\n", "bold"))
    return text.append("\n".join(map(fill, lines.splitlines()))).append("\n")


def _draw_word(name: str, word: Word) -> Text:
    """Draws a word of the language: its form, its meaning, and what CUDA calls it."""
    lines = [fill(word.meaning)]
    if word.cuda:
        lines.append(fill(f"In CUDA: {word.cuda}."))
    text = Text.assemble((f"{name}\n\n", "bold"), f"    {word.form}\n\n")
    return text.append("\n".join(lines)).append("\n")


def _instruction(name: str) -> InstructionTemplate | None:
    """Looks up an instruction of `exogpu.isa` by its name."""
    for module in MODULES:
        found = vars(import_module(module)).get(name)
        if isinstance(found, InstructionTemplate):
            return found
    return None


def _instruction_names() -> Iterator[str]:
    """Lists the instructions that ship."""
    for module in MODULES:
        for name, value in vars(import_module(module)).items():
            if isinstance(value, InstructionTemplate):
                yield name


def nearest(name: str) -> str:
    """Suggests the known name that is spelt most alike."""
    hazards = (kind.value for kind in CODE_OF)
    names = (*CODES, *hazards, *known_names(), *WORDS, *_instruction_names())
    known = {one.lower(): one for one in names}
    close = get_close_matches(name.lower(), known, n=1)
    listed = "`exogpu explain` lists all codes"
    return f"did you mean {known[close[0]]}? {listed}" if close else listed
