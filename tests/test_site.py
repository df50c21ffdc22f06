"""The pages as a site: each is in the navigation, and links lead somewhere, there and elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from exogpu.diagnostics.codes import CODES
from exogpu.frontend.instructions import InstructionTemplate
from exogpu.isa import cuda, f8, i8, ldmatrix, mn_major, rows, sm80, sm90, some_rows
from tests.pages import BLOCK, DOCS, ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.glob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
NAMED = re.compile(r"^ +- (?:[^:\n]+: )?([\w-]+\.md)$", re.M)
MADE = {"codes.md", "instructions.md"}
"""Pages that are made when the site is."""


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called where the repository is browsed."""
    text = BLOCK.sub("", page.read_text())
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken(page: Path) -> Iterator[str]:
    """The links of a page that lead nowhere."""
    for path, anchor in LINK.findall(BLOCK.sub("", page.read_text())):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield f"{path}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    assert not [*broken(page)]


def test_a_link_that_leads_nowhere_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title, of sorts\n[a](page.md#a-title-of-sorts) [b](none.md) [c](#none)\n")
    assert [*broken(page)] == ["none.md#", "#none"]


def test_every_page_is_in_the_navigation_once() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    assert sorted(NAMED.findall(nav)) == sorted({page.name for page in DOCS.glob("*.md")} | MADE)


def test_the_index_and_the_readme_lead_to_what_a_user_looks_for() -> None:
    for page in (DOCS / "index.md", ROOT / "README.md"):
        linked = {Path(path).name for path, _ in LINK.findall(page.read_text())}
        assert linked >= {
            *("tutorial.md", "reading-a-refutation.md", "coming-from-cuda.md", "tma.md"),
            *("policies.md", "language.md", "scheduling.md", "proof.md"),
        }


def build(folder: Path, source: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=source,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    built = build(folder)
    assert built.returncode == 0 and "WARNING" not in built.stderr, built.stderr
    return folder


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(site: Path) -> None:
    made = {page.name for page in site.glob("*.html")}
    pages = {page.name for page in DOCS.glob("*.md")} | MADE
    assert made >= {name.replace(".md", ".html") for name in pages}


@pytest.mark.slow
def test_the_site_has_every_code_and_the_sources_that_pages_link_to(site: Path) -> None:
    codes = (site / "codes.html").read_text()
    assert all(f">{code}: " in codes for code in CODES)
    museum = (site / "museum.html").read_text()
    targets = re.findall(r'href="(source/[^"]+)"', museum)
    assert len(targets) > 10
    assert all((site / target).exists() for target in targets)


@pytest.mark.slow
def test_every_instruction_has_a_page_with_its_definition(site: Path) -> None:
    made = {
        template.name: template
        for catalogue in (cuda, f8, i8, ldmatrix, mn_major, rows, sm80, sm90, some_rows)
        for template in vars(catalogue).values()
        if isinstance(template, InstructionTemplate)
    }
    assert {page.stem for page in (site / "instructions").glob("*.html")} == {*made}
    listed = (site / "instructions.html").read_text()
    assert all(f'href="instructions/{name}.html"' in listed for name in made)
    page = (site / "instructions" / "cuda_load.html").read_text()
    assert "ld.v4" in page and "<code>n</code> (default <code>4</code>)" in page


@pytest.mark.slow
def test_the_site_leaves_no_link_out_of_itself(site: Path) -> None:
    for page in {*site.glob("*.html")} - {site / "404.html"}:
        assert not re.search(r'src="https?:', page.read_text())
        for href in re.findall(r'(?:href|src)="(?!https?:|#|data:)([^"#?]+)', page.read_text()):
            assert (page.parent / href).exists(), (page.name, href)
