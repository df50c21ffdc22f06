"""The page in a real browser: what a person sees, clicks and types.

Needs Debian's package `chromium`; nothing of it is downloaded, and no port is opened.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser
from samples import HOSTILE, hazardous, hostile, proof_of, reverse, tiled, verdict_of

from exogpu.kernels.gemm_sm90 import KERNELS
from exogpu.report.build import build
from exogpu.report.derivation_page import history
from exogpu.report.page import history_html, html

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed (Debian's package `chromium`)"
)

MANY = 170
"""Copies of three obligations."""


@pytest.fixture(scope="module")
def browser():
    with Browser() as one:
        yield one


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    """Reports by name: a small proof, a large one, a refutation, hostile names, a real kernel."""
    gemm = KERNELS["gemm_sm90_2x1_256x192"]
    reports = {
        "small": build(reverse, verdict_of(reverse, proof_of(reverse))),
        "large": build(reverse, verdict_of(reverse, proof_of(reverse, MANY))),
        "refuted": build(hazardous, hazardous.check_at(M=2)),
        "hostile": build(hostile, verdict_of(hostile, proof_of(hostile))),
        "gemm": build(gemm, gemm.check_at(L=1, M=1, N=1, cluster_K=4)),
        "derived": build(tiled, tiled.check()),
    }
    folder = tmp_path_factory.mktemp("pages")
    made = {}
    for name, report in reports.items():
        made[name] = folder / f"{name}.html"
        made[name].write_text(html(report), encoding="utf-8")
    made["history"] = folder / "history.html"
    made["history"].write_text(history_html(history(tiled, tiled, tiled.check())), encoding="utf-8")
    return made


@pytest.fixture
def page(browser, pages):
    """Opens a page by name, at 1,000 by 800 pixels, and checks on the way out that nothing was
    asked of the network and nothing went wrong."""
    browser.errors.clear()
    browser.requests.clear()
    opened: list[str] = []

    def show(name: str) -> Browser:
        browser.resize(1000, 800)
        browser.scheme("light")
        browser.open(pages[name])
        opened.append(pages[name].as_uri())
        return browser

    yield show
    assert browser.errors == []
    assert [u.partition("#")[0] for u in browser.requests if not u.startswith("data:")] == opened


ARCS = "document.querySelectorAll('#arcs .arc').length"
PANEL = "document.getElementById('panel').innerText"
ROWS = "document.querySelectorAll('#table tbody tr:not([hidden])').length"


def test_arcs_appear_on_click_and_go_again(page):
    """The write has three obligations; two go over one fence, one over two: 2 + 3 + 2 arcs."""
    one = page("small")
    assert one.js(ARCS) == 0
    one.click(".mark.write")
    assert one.js(ARCS) == 7
    assert one.js("document.querySelectorAll('#arcs .arc.bad').length") == 0
    assert "In 3 obligations." in one.js(PANEL)
    one.click(".mark.write")
    assert one.js(ARCS) == 0


def test_arcs_appear_by_keyboard(page):
    """Tab reaches every mark, Enter shows its arcs, Escape takes them away."""
    one = page("small")
    one.js("document.querySelector('nav a').focus()")
    for _ in range(40):
        one.press("Tab")
        if one.js("document.activeElement.matches('.mark.write')"):
            break
    else:
        raise AssertionError("Tab does not reach the access")
    one.press("Enter")
    assert one.js(ARCS) == 7
    assert one.js("document.activeElement.getAttribute('aria-pressed')") == "true"
    one.press("Escape")
    assert one.js(ARCS) == 0


def test_a_broken_pair_is_dotted_red(page):
    one = page("refuted")
    one.click(".mark.write")
    assert one.js("document.querySelectorAll('#arcs .arc.bad').length") == 1
    style = one.js(
        "(s => [s.strokeDasharray, s.stroke])(getComputedStyle(document.querySelector('.arc.bad')))"
    )
    assert style == ["1.5px, 4px", "rgb(179, 38, 30)"]


def test_a_synchronising_statement_tells_what_needs_it(page):
    """By hovering, and that the last fence is not needed."""
    one = page("small")
    fences = one.js("[...document.querySelectorAll('.mark.fence')].map(m => m.dataset.mark)")
    one.hover(f'[data-mark="{fences[0]}"]')
    assert "Needed by 2 obligations." in one.js(PANEL)
    one.hover(f'[data-mark="{fences[2]}"]')
    assert "Needed by none: redundant." in one.js(PANEL)
    needs = one.js("[...document.querySelectorAll('.need')].map(n => n.innerText).filter(Boolean)")
    assert needs == ["2", "2", "none"]


def test_the_table_filters_and_sorts_500_rows(page):
    one = page("large")
    assert one.js(ROWS) == 3 * MANY
    change = "dispatchEvent(new Event('input', { bubbles: true }))"
    one.js(f"(e => {{ e.value = 'WAR'; e.{change} }})(document.getElementById('kind'))")
    assert one.js(ROWS) == MANY
    one.js(f"(e => {{ e.value = 'war-7 holds'; e.{change} }})(document.getElementById('find'))")
    names = "[...document.querySelectorAll('#table tbody tr:not([hidden]) .show')]"
    found = one.js(f"{names}.map(b => b.innerText)")
    assert found == [f"war-{n}" for n in range(MANY) if str(n).startswith("7")]
    assert one.js("document.getElementById('count').value") == f"{len(found)} of {3 * MANY}"
    one.click("#table th:first-child button")
    one.click("#table th:first-child button")
    assert one.js("document.querySelector('#table th').getAttribute('aria-sort')") == "descending"
    assert one.js(f"{names}.map(b => b.innerText)") == found[::-1]


def test_a_row_of_the_table_shows_its_arcs(page):
    one = page("small")
    one.click("#table tr[data-row='1'] .show")
    assert one.js(ARCS) == 3
    assert one.js("document.querySelector('#table .chosen').dataset.row") == "1"


def test_the_trip_count_of_the_rings_can_be_chosen(page):
    one = page("gemm")
    shown = "[...document.querySelectorAll('.ring:not([hidden])')].map(r => r.dataset.trips)"
    assert set(one.js(shown)) == {"6"}
    one.js(
        "(e => { e.value = '3'; e.dispatchEvent(new Event('input', { bubbles: true })) })"
        "(document.getElementById('trips'))"
    )
    assert set(one.js(shown)) == {"3"}


PAGES = ["small", "large", "refuted", "hostile", "gemm", "derived", "history"]
INNER = """[...document.querySelectorAll('body *')].filter((e) => e.clientWidth
  && e.scrollWidth > e.clientWidth + 1 && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)
).map((e) => e.className || e.tagName)"""


@pytest.mark.parametrize("width", [1000, 400])
@pytest.mark.parametrize("name", PAGES)
def test_a_window_does_not_scroll_sideways(page, name, width):
    """Nor in a narrow one does a part of the page, but for the drawing of many lanes."""
    one = page(name)
    one.resize(width, 800)
    one.js("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert one.js("document.scrollingElement.scrollWidth") <= width
    assert one.js("document.body.scrollWidth <= document.documentElement.clientWidth")
    if width == 400:
        assert set(one.js(INNER)) <= {"scroll"}


def test_a_narrow_window_shows_every_cell(page):
    """What a row says stands below each other, and an access can still be asked about."""
    one = page("small")
    one.resize(400, 800)
    shown = "[...document.querySelectorAll('#table td')].every((d) => d.innerText.trim() === '' || "
    assert one.js(shown + "d.getBoundingClientRect().right <= 400)")
    one.click(".mark.write")
    assert one.js(ARCS) == 7


def test_paper_has_what_a_click_would_show(page):
    """What needs each statement, formal texts, the number of trips; no hint to click or to type."""
    one = page("small")
    assert one.js("getComputedStyle(document.querySelector('.printed')).display") == "none"
    one.medium("print")
    try:
        text = one.js("document.body.innerText")
        assert "Needed by 2 obligations." in text and "Needed by none: redundant." in text
        closed = "document.querySelectorAll('details[open]').length"
        assert one.js(closed) == 0
        tall = "[...document.querySelectorAll('#table details')].every((d) => "
        assert one.js(tall + "d.offsetHeight > 1.5 * d.firstElementChild.offsetHeight)")
        assert "Choose an access" not in text
    finally:
        one.medium("")
    one = page("gemm")
    one.medium("print")
    try:
        hint = "document.querySelector('#barriers .hint')"
        assert one.js(f"getComputedStyle({hint}.querySelector('label')).display") != "none"
        assert one.js("document.getElementById('trips').offsetWidth") > 0
    finally:
        one.medium("")


def test_a_derived_procedure_has_its_steps(page):
    one = page("derived")
    assert "divide_loop" in one.js("document.getElementById('steps').innerText")
    one.click("#step1 summary code")
    assert "outer_iterator" in one.js("document.querySelector('#step1 .diff').innerText")
    page("small")
    assert not one.js("document.getElementById('steps') !== null")


def test_hostile_names_show_as_text(page):
    """In the title, a heading, the docstring, a comment of the source, claims and messages."""
    one = page("hostile")
    one.click(".mark.write")
    assert one.js("document.title") == f"{HOSTILE}: proved"
    assert HOSTILE in one.js("document.querySelector('h1').innerText")
    assert HOSTILE in one.js("document.querySelector('.doc').innerText")
    assert '<b>a comment & "quotes"</b>' in one.js("document.getElementById('code').innerText")
    data = json.loads(one.js("document.getElementById('data').textContent"))
    assert HOSTILE in data["rows"][0]["claim"]
    assert one.js("document.querySelectorAll('img, b, script').length") == 2  # the page's own


# Text with less contrast than WCAG 2 asks for at level AA: 4.5, or 3 where it is large.
CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05); };
  const ground = (e) => {
    const box = e.namespaceURI.endsWith('svg') && e.parentElement.querySelector(':scope > rect');
    if (box && getComputedStyle(box).fill !== 'none') return rgba(getComputedStyle(box).fill);
    for (; e; e = e.parentElement) {
      const colour = rgba(getComputedStyle(e).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const poor = new Set();
  for (const e of document.querySelectorAll('body *')) {
    if (['SCRIPT', 'STYLE', 'title', 'OPTION'].includes(e.tagName)) continue;
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const style = getComputedStyle(e), svg = e.namespaceURI.endsWith('svg');
    const large = parseFloat(style.fontSize) >= 24;
    const found = ratio(rgba(svg ? style.fill : style.color), ground(e));
    if (found < (large ? 3 : 4.5)) poor.add(`${e.tagName}.${e.getAttribute('class')} ${found}`);
  }
  return [...poor];
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["small", "refuted", "gemm"])
def test_text_has_enough_contrast(page, name, scheme):
    one = page(name)
    one.scheme(scheme)
    one.click(".mark.await, .mark.fence")
    assert one.js(CONTRAST) == []


def test_contrast_is_measured(page):
    """The measure itself finds grey on white."""
    one = page("small")
    one.js("document.querySelector('.theorem').style.color = '#999999'")
    assert any(found.startswith("P.theorem 2.8") for found in one.js(CONTRAST))
