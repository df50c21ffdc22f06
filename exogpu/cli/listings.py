"""Listings: who executes each scope of a procedure, and its abstract machine program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module
from pkgutil import iter_modules
from textwrap import fill
from typing import Final

from rich.text import Text

from exogpu import isa
from exogpu.amir.export import Json, to_json
from exogpu.amir.nodes import Program
from exogpu.analysis import collective
from exogpu.analysis.inline import inline
from exogpu.analysis.launch import with_waits
from exogpu.analysis.lifetimes import insert_frees
from exogpu.analysis.thread_names import listing
from exogpu.diagnostics.codes import CODES
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.explain.hazard_text import CODES as CODE_OF
from exogpu.frontend.instructions import InstructionTemplate
from exogpu.frontend.reference import WORDS, Word
from exogpu.hw.access_names import explained, known_names
from exogpu.ir.nodes import Proc
from exogpu.report.render_verdict import draw_code

_NUMBER = re.compile(r"\((-?\d+)\)")
_LINE = "{:>5} | "
_PLACE: Final = frozenset({"op", "body", "file", "line", "column", "text", "threads"})
"""Fields of an operation that the listing does not show as `name=value`."""


def threads_listing(ir: Proc, *, relations: bool = False) -> Text:
    """A line for each scope of the kernels that has its own set of threads, and that set.

    With `relations`, below each the exact ISL relation from iterators to thread indices.
    Raises ExoGpuError where the scopes do not fit the launch.
    """
    flat = insert_frees(with_waits(inline(ir)))
    executors, wrong = collective.analyse(flat)
    if wrong:
        raise ExoGpuError(wrong)
    # Metaprogramming unrolls loops: what was written once is listed once.
    lines = tuple(dict.fromkeys(listing(flat, executors)))
    text = Text(f"{ir.name}\n", "bold")
    if not lines:
        return text.append("  runs on the CPU alone\n")
    width = max(len("  " * line.depth + line.opens) for line in lines)
    for line in lines:
        text.append(_LINE.format(line.span.line), "blue")
        text.append(f"{'  ' * line.depth + line.opens:<{width}}  ")
        text.append(f"{line.executors}\n", "cyan")
        if relations:
            text.append(f"{_LINE.format('')}{'  ' * line.depth}{line.relation}\n", "dim")
    return text


def amir_listing(program: Program) -> Text:
    """The operations of the machine, one a line, each with its source line and its fields."""
    text = Text()
    exported = to_json(program)
    params = ", ".join(p.name.name for p in program.params)
    text.append(f"{program.name}({params}), policy {program.policy.value}\n", "bold")
    variables = exported["variables"]
    assert isinstance(variables, list)
    for variable in variables:
        assert isinstance(variable, dict)
        text.append(f"  variable {variable['name']}")
        text.append(f"[{_value(variable['shape'])}]")
        text.append(_fields(variable, frozenset({"name", "shape"}))).append("\n")
    _operations(exported["body"], 0, text)
    return text


def _operations(body: Json, depth: int, text: Text) -> None:
    assert isinstance(body, list)
    for op in body:
        assert isinstance(op, dict)
        text.append(_LINE.format(str(op["line"])), "blue")
        text.append(f"{'  ' * depth}{op['op']}", "bold").append(_fields(op, _PLACE)).append("\n")
        if "body" in op:
            _operations(op["body"], depth + 1, text)


def _fields(fields: dict[str, Json], hidden: frozenset[str]) -> str:
    """The fields that say something: what is false, null or empty is left out."""
    shown = [
        f" {name}" if value is True else f" {name}={_value(value)}"
        for name, value in fields.items()
        if name not in hidden and value is not False and value is not None and value != []
    ]
    return "".join(shown)


def _value(value: Json) -> str:
    match value:
        case {"variable": str(name), "coords": [*coords]}:
            return f"{name}[{', '.join(_coordinate(coord) for coord in coords)}]"
        case {"home": home, "targets": targets}:
            return f"{_value(targets)} (home {_value(home)})"
        case list():
            return ", ".join(_value(item) for item in value)
        case _:
            return _NUMBER.sub(r"\1", str(value))


def _coordinate(coord: Json) -> str:
    return ":".join(map(_value, coord)) if isinstance(coord, list) else _value(coord)


# `exogpu explain NAME`: a code, a hazard, a timeline, a word of the language, an instruction.

MODULES: Final = tuple(f"exogpu.isa.{one.name}" for one in iter_modules(isa.__path__))
"""The modules whose instructions are explained."""
_BRACKETS: Final = re.compile(r"\([^)]*\)")
"""Where the first line of an instruction's docstring says what PTX calls it."""
_SHORTEST: Final = 3
"""Letters of the shortest name of CUDA that is looked for: mma."""


def draw_name(name: str) -> Text | None:
    """Explains a name of a message, of the language or of CUDA; None for a name that none has."""
    code = {kind.value: of for kind, of in CODE_OF.items()}.get(name.upper(), name.upper())
    if code in CODES:
        return draw_code(code, CODES[code])
    if (word := WORDS.get(name)) is not None:
        return _draw_word(name, word)
    if (template := _instruction(name)) is not None:
        return Text(f"{template.__doc__}\n")
    timeline = explained(name)
    if timeline is None:
        misspelt = name.lower() in {word.lower() for word in WORDS}
        return None if misspelt else _draw_cuda_name(name)
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


def _draw_cuda_name(name: str) -> Text | None:
    """Lists the words and instructions that are this in CUDA or PTX; None where there are none.

    Of `mbarrier.try_wait.parity` the parts from the right are left out until something is found.
    """
    parts = name.split("(")[0].lower().split(".")
    for count in range(len(parts), 0, -1):
        asked = ".".join(parts[:count])
        if len(asked) >= _SHORTEST and (found := [*_called_in_cuda(asked)]):
            width = max(len(one) for one, _ in found)
            text = Text.assemble((f"{name}: a name of CUDA, written here by\n\n", "bold"))
            for one, form in found:
                text.append(f"    {one:<{width}}  {form}\n")
            return text.append("\n`exogpu explain NAME` says more of each.\n")
    return None


def _called_in_cuda(asked: str) -> Iterator[tuple[str, str]]:
    """Yields the name and form of each that CUDA calls `asked`, or calls so up to a dot.

    `sync` is no name; `wait_group` is one, of which PTX has several.
    """
    before = r"\w" if "_" in asked else r"\w."
    whole = re.compile(rf"(?<![{before}]){re.escape(asked)}(?!\w)", re.IGNORECASE)
    for name, word in WORDS.items():
        if whole.search(word.cuda):
            yield name, word.form
    for name in _instruction_names():
        template = _instruction(name)
        assert template is not None
        line = (template.__doc__ or "").split("\n\n")[1:2]
        emitted = template.template if isinstance(template.template, str) else ""
        if whole.search(" ".join([*_BRACKETS.findall(" ".join(line)), emitted])):
            yield name, " ".join(line)


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
    close = get_close_matches(name, names, n=1, cutoff=0.7)
    close = close or [known[one] for one in get_close_matches(name.lower(), known, n=1)]
    listed = "`exogpu explain` lists all codes"
    return f"did you mean {close[0]}? {listed}" if close else listed
