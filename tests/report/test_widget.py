"""What a notebook shows of a kernel: a frame that steps through its timeline, without a server."""

from __future__ import annotations

import re
import time
from html import unescape
from html.parser import HTMLParser

import pytest
from browser import CHROMIUM, Browser
from samples import HOSTILE, hazardous, hostile, reverse, two_loops

from exogpu import CudaRmem, schedule
from exogpu.api import proc
from exogpu.diagnostics.errors import ExoGpuError
from exogpu.kernels.gemm_sm90 import KERNELS

GEMM = KERNELS["gemm_sm90_2x1_256x192"]
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


def displayed(value: object) -> str:
    """What IPython's display takes of a cell's last value: HTML where there is some."""
    shown = getattr(value, "_repr_html_", None)
    return repr(value) if shown is None else shown()


class Frames(HTMLParser):
    """The pages in the frames of a cell's output."""

    def __init__(self, shown: str) -> None:
        super().__init__()
        self.pages: list[str] = []
        self.names: set[str] = set()
        self.feed(shown)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        if tag == "iframe":
            found = dict(attrs)
            assert found["sandbox"] == "allow-scripts"
            self.pages.append(found["srcdoc"] or "")


def page_of(value: object) -> str:
    (page,) = Frames(displayed(value)).pages
    return page


@pytest.fixture(scope="module")
def browser():
    with Browser() as one:
        yield one


@pytest.fixture
def opened(browser, tmp_path):
    """Opens the page of a frame; nothing goes wrong in it, and it asks the network for nothing."""
    browser.errors.clear()
    browser.requests.clear()
    file = tmp_path / "frame.html"

    def show(page: str, width: int = 800) -> Browser:
        file.write_text(page, encoding="utf-8")
        browser.resize(width, 800)
        browser.open(file)
        return browser

    yield show
    assert browser.errors == []
    assert not [u for u in browser.requests if not u.startswith("data:") and u != file.as_uri()]


RING = """[...document.querySelectorAll('.run:not([hidden]) [data-element="%s"] .slot')]
  .map((s) => s.innerText + ' ' + s.classList[1])"""
LATER = "document.querySelectorAll('.run:not([hidden]) .lanes a.later').length"
BOXES = "document.querySelectorAll('.run:not([hidden]) .lanes a').length"


def step(one: Browser, number: int) -> None:
    one.js(
        f"(s => {{ s.value = {number}; s.dispatchEvent(new Event('input')); }})"
        "(document.getElementById('step'))"
    )


@needs_chromium
def test_the_ring_is_stepped(opened):
    """At 6 trips the slots of a ring of 5 are filled in turn, awaited, and the first is used
    again."""
    one = opened(page_of(GEMM.animate(L=1, M=1, N=1, cluster_K=164)))
    full = RING % "full[0, 0]"
    assert one.js(full) == ["5 awaited", *(f"{n} awaited" for n in range(1, 5))]
    assert one.js(LATER) == 0
    one.click("#start")
    assert one.js(full) == ["\u2013 empty"] * 5
    assert one.js(LATER) == one.js(BOXES) > 50
    seen: list[list[str]] = []
    for _ in range(one.js("Number(document.getElementById('step').max)")):
        one.click("#next")
        seen.append(one.js(full))
    firsts = [one for one, before in zip(seen, [None, *seen], strict=False) if one != before]
    words = [slots[0] for slots in firsts]
    order = [w for w, before in zip(words, [None, *words], strict=False) if w != before]
    assert order == ["\u2013 empty", "0 arrived", "0 awaited", "5 arrived", "5 awaited"]
    assert one.js("document.getElementById('at').value").startswith("step ")
    one.click("#back")
    assert one.js(LATER) > 0


@needs_chromium
def test_a_row_is_there_when_its_step_is(opened):
    """What is later is faint, what is now is marked; an arrow comes with the box it points to."""
    one = opened(page_of(GEMM.animate(L=1, M=1, N=1, cluster_K=68)))
    for number in (0, 1, 7, 12):
        step(one, number)
        faint = "[...document.querySelectorAll('.lanes a')].filter(a => %s).map(a => a.dataset.y)"
        shown = {float(y) for y in one.js(faint % "!a.classList.contains('later')")}
        later = {float(y) for y in one.js(faint % "a.classList.contains('later')")}
        now = {float(y) for y in one.js(faint % "a.classList.contains('now')")}
        assert len(shown) == number and len(now) == min(number, 1)
        assert not shown or (max(shown) < min(later) and now == {max(shown)})
        arrows = "document.querySelectorAll('.arrow:not(.later)').length"
        ends = one.js(
            "[...document.querySelectorAll('.arrow')].map((p) => "
            "Number(p.getAttribute('d').trim().split(' ').pop()) - 9)"
        )
        assert one.js(arrows) == sum(1 for y in ends if y in shown)


@needs_chromium
def test_it_plays_and_stops(opened):
    one = opened(page_of(GEMM))
    one.click("#play")
    deadline = time.monotonic() + 30
    while one.js("Number(document.getElementById('step').value)") < 2:
        assert time.monotonic() < deadline
    assert one.js("document.getElementById('play').getAttribute('aria-pressed')") == "true"
    one.click("#back")
    assert one.js("document.getElementById('play').getAttribute('aria-pressed')") == "false"


@needs_chromium
def test_a_size_is_chosen(opened):
    """Of a kernel without sizes, the number of trips through its main loop."""
    one = opened(page_of(GEMM.animate()))
    labels = one.js("[...document.getElementById('run').options].map((o) => o.innerText)")
    assert (
        len(labels) == len(set(labels)) == 6 and labels[2] == "L = 1, M = 1, N = 1, cluster_K = 68"
    )
    one.js(
        "(s => { s.value = '0'; s.dispatchEvent(new Event('change')); })"
        "(document.getElementById('run'))"
    )
    assert one.js(RING % "full[0, 0]") == ["0 awaited", *["\u2013 empty"] * 4]
    assert one.js("document.querySelectorAll('.run:not([hidden])').length") == 1


@needs_chromium
@pytest.mark.parametrize("width", [800, 400])
def test_a_frame_does_not_scroll_sideways(opened, width):
    one = opened(page_of(GEMM), width)
    one.js("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert one.js("document.scrollingElement.scrollWidth") <= width


@needs_chromium
def test_a_cell_shows_its_frame(opened):
    """As a notebook does: in a page with other styles and scripts."""
    style = "<style>.lanes, .slot, #step { display: none }</style><div id='step'></div>"
    one = opened(f"<!DOCTYPE html><meta charset='utf-8'>{style}{displayed(GEMM)}")
    height = one.js("document.querySelector('iframe').getBoundingClientRect().height")
    assert height >= 260
    # The frame is of no origin: the notebook's page is out of its reach, and it of the page's.
    assert one.js("document.querySelector('iframe').contentDocument") is None


def test_the_verdict_stands_with_it():
    """Once a kernel is checked; a refuted one is shown where it fails."""
    fresh = schedule.rename(reverse, "fresh")
    assert "proved" not in displayed(fresh).partition("<iframe")[0]
    assert fresh.check()
    card = displayed(fresh).partition("<iframe")[0]
    assert "proved" in card and "def fresh" in card
    broken = schedule.rename(hazardous, "broken")
    assert not broken.check()
    shown = displayed(broken).partition("<iframe")[0]
    assert "refuted" in shown and "RAW line" in shown
    assert page_of(broken).count("failing") > 2


def test_threads_are_told():
    page = page_of(GEMM)
    assert "Who runs what" in page and "producer" in page
    assert "href" not in re.sub(r"<style>.*?</style>", "", page, flags=re.S)


def test_what_has_no_kernel_has_no_frame():
    assert "iframe" not in displayed(two_loops)
    assert "launches no kernel" in displayed(two_loops.animate(n=4))


def test_a_kernel_without_sizes_or_barriers():
    @proc
    def fixed(x: f32[32] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 1):
                for t in cuda_threads(0, 32, unit=cuda_thread):
                    x[t] = 1.0

    assert "no sizes" in page_of(fixed)
    assert "x[t] = 1.0" in page_of(fixed.animate())


@pytest.mark.parametrize(
    "sizes, code",
    [({"M": 0}, "X903"), ({"M": 3}, "X904"), ({"K": 4}, "X901"), ({"M": 2.0}, "X905")],
)
def test_sizes_that_do_not_fit(sizes, code):
    with pytest.raises(ExoGpuError, match=code):
        reverse.animate(**sizes)


def test_an_ill_formed_procedure_is_refused():
    with pytest.raises(ExoGpuError):
        schedule.set_memory(two_loops, "x", CudaRmem).animate(n=4)


def test_names_are_text():
    """A frame's page stands in an attribute of the cell's output, and scripts in the page."""
    shown = displayed(hostile.animate(M=2))
    assert Frames(shown).names == {"iframe"}
    page = page_of(hostile.animate(M=2))
    assert "<img" not in page and page.count("</script>") == 2
    assert HOSTILE in unescape(page)


def test_it_says_what_it_is_elsewhere():
    assert repr(reverse.animate(M=2)) == "<run of reverse at M = 2: a notebook shows it>"
