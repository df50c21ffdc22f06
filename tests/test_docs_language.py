"""docs/language.md is true: its examples load, and its tables have all that the code has."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exogpu.cli.loader import load
from exogpu.diagnostics.hazards import HazardKind
from exogpu.diagnostics.verdict import Policy
from exogpu.frontend.instructions import InstructionTemplate
from exogpu.hw.language import DATA_TYPES, LANGUAGE
from exogpu.hw.timelines import SYNC_TIMELINES
from exogpu.ir.scalar_functions import EXACT, FUNCTIONS, WRITTEN, Error, called_as
from exogpu.ir.types import QualTL
from exogpu.isa import cuda, f8, i8, ldmatrix, mn_major, rows, sm80, sm90, some_rows
from exogpu.machine import literal

PAGE = Path(__file__).parent.parent / "docs" / "language.md"
TEXT = PAGE.read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


def name_of(example: str) -> str:
    (*_, name) = re.findall(r"^ *def (\w+)", example, re.MULTILINE)
    return str(name)


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_examples_load_and_refused_ones_are_refused(example: str, tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    file.write_text(example)
    asked = re.match(r"# refused: (.*)\n", example)
    codes = sorted(asked.group(1).split()) if asked else []
    units = load(str(file))
    assert units
    found = {d.code for unit in units for d in unit.diagnostics}
    for unit in units:
        if unit.procedure is not None:
            verdict = unit.procedure.check()
            found |= {d.code for d in (*verdict.diagnostics, *verdict.hazards)}
    assert sorted(found) == codes


@pytest.mark.parametrize("example", [e for e in EXAMPLES if "# safe at:" in e], ids=name_of)
@pytest.mark.parametrize("policy", Policy)
def test_examples_are_safe_where_they_say_so(example: str, policy: Policy, tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    file.write_text(example)
    (sizes,) = re.findall(r"^# safe at:(.*)$", example, re.MULTILINE)
    at = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", sizes)}
    for unit in load(str(file)):
        assert unit.procedure is not None
        assert literal.run(unit.procedure.amir(policy), at) == ()


def test_each_fence_of_the_first_example_is_needed(tmp_path: Path) -> None:
    """As the text below it says: RAW without the first, FREE without the second."""
    fence = re.compile(r"^ *Fence\(.*\n", re.MULTILINE)
    kinds = []
    for left_out in fence.finditer(EXAMPLES[0]):
        file = tmp_path / f"without_{left_out.start()}.py"
        file.write_text(EXAMPLES[0][: left_out.start()] + EXAMPLES[0][left_out.end() :])
        (unit,) = load(str(file))
        assert unit.procedure is not None
        violations = literal.run(unit.procedure.amir(Policy.PTX), {"M": 128})
        kinds.append(violations[0].kind)
    assert kinds == [HazardKind.RAW, HazardKind.FREE]


def test_there_are_examples_of_both_kinds() -> None:
    refused = [e for e in EXAMPLES if e.startswith("# refused")]
    assert len(refused) >= 3 and len(EXAMPLES) - len(refused) >= 5


@pytest.mark.parametrize("name", sorted(LANGUAGE))
def test_every_name_of_the_language_is_on_the_page(name: str) -> None:
    assert re.search(rf"\b{name}\b", TEXT)


CATALOGUES = (cuda, sm80, ldmatrix, sm90, mn_major, f8, i8, rows, some_rows)


def constants(template: InstructionTemplate) -> Iterator[str]:
    """The compile-time parameters of an instruction, with their defaults."""
    for name in template.constant_names:
        default = template.defaults.get(name)
        value = getattr(default, "value", default)
        yield f"`{name}`" if name not in template.defaults else f"`{name}={value}`"


def catalogue() -> str:
    """Every instruction with its parameters and the first paragraph of its docstring."""
    lines = []
    for module in CATALOGUES:
        lines += [f"`{module.__name__}`", "", "| instruction | parameters | meaning |"]
        lines += ["| --- | --- | --- |"]
        for template in vars(module).values():
            if isinstance(template, InstructionTemplate):
                function = template.source.function
                arguments = ", ".join(a.arg for a in function.args.args)
                first = (ast.get_docstring(function) or "").split("\n\n")[0]
                meaning = " ".join(first.split())
                given = ", ".join(constants(template))
                lines.append(f"| `{template.name}({arguments})` | {given} | {meaning} |")
        lines.append("")
    return "\n".join(lines)


OPERANDS = {
    "number": "numbers",
    "compared": "numbers",
    "float": "floating point",
    "f32": "an f32",
    "integer": "integers",
    "word": "integers of 32 bits",
}


def error_text(error: Error) -> str:
    """An error in a cell of the table."""
    if error == EXACT:
        return ""
    parts = [f"{error.ulp:g} ulp" if error.ulp else ""]
    parts += [f"2^{math.log2(error.absolute):g}" if error.absolute else ""]
    text = " or ".join(filter(None, parts))
    text += f" where abs(a) <= {error.within:g}" if math.isfinite(error.within) else ""
    return text + (", subnormal numbers as 0" if error.flushes else "")


def functions() -> str:
    """The functions of data that are no conversions, with what they take and give."""
    lines = [
        "| function | takes | gives | error of a device | |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in WRITTEN:
        row, plain = FUNCTIONS[name], called_as(name)[0]
        if plain in {*DATA_TYPES, "bits", "from_bits"}:
            continue
        given = "abcd"[: len(row.takes)]
        shown = f"{name}({', '.join(given)})"
        if row.symbol:
            shown = f"a {name} b" if len(given) == 2 else f"{name}a"
        gives = "the widest" if row.gives == "same" else f"an {row.gives.value}"
        errors = [row.error] if isinstance(row.error, Error) else row.error
        texts = list(dict.fromkeys(error_text(error) for error in errors))
        error = texts[0] if len(texts) == 1 else f"{texts[0]}; of f64 {texts[1]}"
        shown = shown.replace("|", "\\|")
        lines.append(f"| `{shown}` | {OPERANDS[row.takes[0]]} | {gives} | {error} | {row.note} |")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("name", "written"), [("instructions", catalogue), ("functions", functions)]
)
def test_the_tables_are_those_of_the_code(
    name: str, written: Callable[[], str], request: pytest.FixtureRequest
) -> None:
    begin, end = f"<!-- begin {name} -->\n\n", f"\n<!-- end {name} -->"
    before, _, rest = PAGE.read_text().partition(begin)
    listed, found, after = rest.partition(end)
    assert found
    if request.config.getoption("--update-golden"):
        PAGE.write_text(before + begin + written() + end + after)
    else:
        assert listed == written()


def test_every_qualitative_timeline_is_listed() -> None:
    assert all(f"`{timeline.value}`" in TEXT for timeline in QualTL)


def test_the_table_of_sync_timelines_is_the_one_of_the_code() -> None:
    """Cell by cell, under policy paper."""
    header, *lines = re.findall(r"^.*(?:trans \||[.y]     \|).*$", TEXT, re.MULTILINE)
    columns = header.partition("|")[2].split()
    assert len(columns) == len(QualTL) and len(lines) == len(SYNC_TIMELINES)
    for line in lines:
        name, transitive = line.partition("|")[0].split()
        timeline, cells = SYNC_TIMELINES[name], line.partition("|")[2].split()
        assert timeline.transitive == (transitive == "y")
        sets = timeline.sets_under(Policy.PAPER)
        for qualitative, cell in zip(QualTL, cells, strict=True):
            full, temporal = qualitative in sets.full, qualitative in sets.temporal
            assert cell == ("full" if full else "temp" if temporal else "."), (name, qualitative)
