"""The pages with a console are true: their files are written, their commands run and print that."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from exogpu.cli.loader import load
from exogpu.explain.hazard_text import CODES as KINDS
from exogpu.hw.language import LANGUAGE
from exogpu.isa import cuda, sm80, sm90
from exogpu.isa import rows as isa_rows
from tests.pages import BLOCK, DOCS, ROOT, Shell, blocks, pattern, rerun, without_cost

PAGES = [
    page
    for page in (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
    if any(block.language == "console" for block in blocks(page.read_text()))
]


@pytest.fixture(autouse=True)
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder as a reader's is: the repository's examples, and nothing else."""
    caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=caches)
    (tmp_path / "build").mkdir()
    monkeypatch.chdir(tmp_path)
    yield


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_consoles_show_what_is_printed(page: Path, request: pytest.FixtureRequest) -> None:
    shell, text = Shell(), page.read_text()
    updated = text
    for block in blocks(text):
        if block.title is not None and not block.title.startswith("examples/"):
            Path(block.title).write_text(block.text)
        if block.language == "console":
            now = rerun(block.text, shell)
            if not request.config.getoption("--update-golden"):
                assert now == block.text
            updated = updated.replace(block.text, now)
    if request.config.getoption("--update-golden"):
        page.write_text(updated)


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_files_shown_are_those_of_the_repository(page: Path) -> None:
    for block in blocks(page.read_text()):
        if block.title is not None and block.title.startswith("examples/"):
            assert (ROOT / block.title).read_text() == block.text, block.title


def codes_of(program: str, folder: Path) -> set[str]:
    """The codes of all that is found wrong with a program, and of what would not compile."""
    file = folder / "changed.py"
    file.write_text(program)
    found = set()
    for unit in load(str(file)):
        found |= {one.code for one in unit.diagnostics}
        if unit.procedure is not None:
            verdict = unit.procedure.check()
            told = (*verdict.diagnostics, *verdict.hazards, *verdict.warnings)
            found |= {one.code for one in told}
    return found


def refused() -> Iterator[tuple[str, str, str, str]]:
    """The tables of refusals: a program, what is changed in it, and the codes of what is said."""
    programs = {one.title: one.text for one in blocks((DOCS / "tma.md").read_text())}
    _, *sections = re.split(
        r"^.*of `(\w+\.py)`.*$",
        (DOCS / "tma.md").read_text().split("## What is refused")[1],
        flags=re.M,
    )
    for title, section in zip(sections[::2], sections[1::2], strict=True):
        rows = re.findall(r"^\| `(.*?)` \| (?:`(.*?)`)? *\| ([A-Z0-9 ]+) \| .* \|$", section, re.M)
        yield from ((programs[title], *row) for row in rows)


@pytest.mark.parametrize(("program", "old", "new", "codes"), [*refused()])
def test_what_the_page_on_tma_says_is_refused_is(
    program: str, old: str, new: str, codes: str, tmp_path: Path
) -> None:
    assert old in program
    assert codes_of(program.replace(old, new), tmp_path) == set(codes.split())


def cells(page: str, after: str) -> list[list[str]]:
    """The rows of the first table of a page after a text, cell by cell."""
    table = (DOCS / page).read_text().partition(after)[2].partition("\n|")[2].partition("\n\n")[0]
    return [re.split(r" \| ", row.strip("| ")) for row in table.split("\n")[2:]]


LINE_BY_LINE = cells("reading-a-refutation.md", "## Line by line")


@pytest.mark.parametrize("said", [row[0] for row in LINE_BY_LINE])
def test_what_is_explained_line_by_line_is_said(said: str) -> None:
    (console, *_) = (
        block.text
        for block in blocks((DOCS / "reading-a-refutation.md").read_text())
        if block.language == "console"
    )
    parts = said.strip("`").split("...")
    assert re.search(".*".join(map(re.escape, parts)), console)


def test_every_kind_of_hazard_is_listed_with_its_code() -> None:
    listed = cells("reading-a-refutation.md", "## The kinds")
    assert {row[0]: row[1] for row in listed} == {kind.value: of for kind, of in KINDS.items()}


def test_the_words_of_a_chain_are_those_of_the_tool() -> None:
    """Each fragment of the page's words stands in what the tool may print."""
    source = (ROOT / "exogpu" / "explain" / "broken_link.py").read_text()
    said = re.sub(r"\{[^{}]*\}", "...", re.sub(r'"\s+f?"', "", source))
    words = cells("reading-a-refutation.md", "## What the chain says")
    assert len(words) > 8
    for row in words:
        for part in re.split(r"\.\.\.?|\d", row[0].strip("`")):
            assert part.strip(" ,") in said, part


OURS = re.compile(r"\b(?:cuda_|Cuda|Sm\d\d_|wgmma_|tma_to_)\w+|\b(?:Fence|Arrive|Await)\b")
STATEMENTS = (DOCS / "language.md").read_text().partition("## Statements")[2].partition("\n## ")[0]
KNOWN = {
    *OURS.findall(STATEMENTS),
    *LANGUAGE,
    *(name for one in (cuda, sm80, sm90, isa_rows) for name in vars(one)),
}


def test_what_other_languages_are_compared_with_exists() -> None:
    page = (DOCS / "coming-from-cuda.md").read_text()
    used = {
        name for row in re.findall(r"^\|.* \|(.*)\|$", page, re.M) for name in OURS.findall(row)
    }
    assert len(used) > 30
    assert sorted(used - KNOWN) == []


def test_a_console_that_shows_something_else_is_noticed() -> None:
    shell = Shell()
    for shown in ("$ echo one\ntwo\n", "$ echo one\n", "$ echo one\none\ntwo\n", "$ false\nx\n"):
        assert rerun(shown, shell) != shown
    for shown in ("$ echo one\none\n", "$ echo one\n...\n", "$ printf 'a\\nb\\n'\n...\nb\n"):
        assert rerun(shown, shell) == shown
    assert rerun("$ false\n$ echo $?\n1\n", shell) == "$ false\n$ echo $?\n1\n"


def test_costs_do_not_count_and_words_do() -> None:
    shown = "p: proved for all sizes (2 obligations in 0.03 s, policy ptx)\n"
    assert pattern(shown).fullmatch(without_cost(shown.replace("0.03", "12.50")))
    assert not pattern(shown).fullmatch(without_cost(shown.replace("proved", "refuted")))
    assert not pattern(shown).fullmatch(without_cost(shown.replace("ptx", "paper")))


def test_there_are_pages_and_each_block_is_found() -> None:
    assert {"README", "tutorial"} <= {page.stem for page in PAGES}
    for page in PAGES:
        assert len(BLOCK.findall(page.read_text())) * 2 == page.read_text().count("```")
