"""The page of a derivation: every step with what it changed, as text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from exogpu import proc, schedule
from exogpu.api import Procedure
from exogpu.report.derivation import changed_lines
from exogpu.report.derivation_page import history
from exogpu.report.page import history_html


@proc
def tailed(n: size, x: f32[n] @ DRAM):
    """A <b>loop</b> & its "name"."""
    for i in seq(0, n):
        x[i] = 2


def derived() -> Procedure:
    p = schedule.divide_loop(tailed, "i", 4, ["io", "ii"])
    p = (
        schedule.fission(
            schedule.stage_mem(p, "x[_] = _", "x[4 * io + ii]", "t"), schedule.find(p, "i").after()
        )
        if 0
        else p
    )
    return schedule.rename(p, "tiled")


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "br", "col"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def page(p: Procedure) -> Page:
    found = Page()
    found.feed(history_html(history(p, p, p.check())))
    found.close()
    assert found.open == []
    return found


def test_every_step_with_its_lines() -> None:
    found = page(derived())
    ids = [attrs["id"] for _, attrs in found.tags if "id" in attrs]
    assert ids == ["start", "steps", "step1", "step2", "end", "proof"]
    text = "".join(found.text)
    assert "divide_loop('i', 4, ['io', 'ii'])" in text.replace("\n", "")
    assert "+                 x[4 * io + ii] = 2" in text
    assert "-         x[i] = 2" in text
    assert "proved" in text and "Derived from tailed in 2 steps" in text


def test_nothing_comes_from_elsewhere_and_nothing_runs() -> None:
    found = page(derived())
    names = {tag for tag, _ in found.tags}
    assert not names & {"script", "img", "iframe", "object", "base", "form"}
    links = [a.get("href") or a.get("src") or "" for _, a in found.tags]
    assert all(link == "" or link[0] == "#" or link == "data:," for link in links)
    policy = [a["content"] for t, a in found.tags if a.get("http-equiv")]
    assert policy and "default-src 'none'" in str(policy[0]) and "script-src" not in str(policy[0])


def test_what_a_program_says_is_text() -> None:
    """Arguments are the user's strings."""

    @schedule.higher
    def step(p: Procedure, word: str) -> Procedure:
        return schedule.rename(p, "renamed")

    evil = "</code><script>alert('&')</script>"
    found = page(step(tailed, evil))
    assert "script" not in {tag for tag, _ in found.tags}
    assert any(evil.split("alert")[0] in text for text in found.text)


def test_higher_steps_are_headings() -> None:
    @schedule.higher
    def inner(p: Procedure) -> Procedure:
        return schedule.rename(p, "b")

    @schedule.higher
    def outer(p: Procedure) -> Procedure:
        return schedule.rename(inner(inner(schedule.rename(p, "a"))), "c")

    p = schedule.rename(outer(tailed), "d")
    found = history(p, p, p.check()).steps
    assert [(step.parts, step.depth) for step in found] == [
        (("outer()",), 1),
        (("inner()",), 2),
        ((), 2),
        ((), 1),
        ((), 0),
    ]


def test_the_differences_make_one_of_the_other() -> None:
    p = derived()
    for made, step in schedule.chain(p):
        lines = [*changed_lines(made, step)]
        old, new = schedule.text(step.parent).splitlines(), schedule.text(made).splitlines()
        kept = [line for line in old if f"-{line}" not in lines]
        assert sorted(kept + [line[1:] for line in lines if line[0] == "+"]) == sorted(new)


def test_one_that_was_written_has_no_steps() -> None:
    found = history(tailed, tailed, tailed.check())
    assert found.steps == () and found.before == found.after
    assert re.search(r"in 0 steps", history_html(found))


@pytest.mark.parametrize("word", ["refuted", "error"])
def test_the_last_may_not_be_proved(word: str) -> None:
    from exogpu import CudaRmem

    @proc
    def raced(x: f32[64] @ CudaGmemLinear):
        with CudaDeviceFunction(blockDim=32):
            for task in cuda_tasks(0, 2):
                t: f32[32] @ CudaSmemLinear
                for i in cuda_threads(0, 32, unit=cuda_thread):
                    t[i] = 1
                for i in cuda_threads(0, 32, unit=cuda_thread):
                    x[32 * task + i] = t[31 - i]

    p = schedule.rename(raced, "renamed")
    if word == "error":
        p = schedule.set_memory(tailed, "x", CudaRmem)
    found = history(p, p, p.check())
    assert found.report.word == word
    text = history_html(found)
    assert f"badge {word}" in text
