"""Two reports compared: what is new, gone and changed, of a folder, a file and a certificate."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser
from samples import HOSTILE, hazardous, hostile, proof_of, reverse, verdict_of
from typer.testing import CliRunner

from exogpu.cli.commands import app
from exogpu.report.build import build
from exogpu.report.comparison import compared
from exogpu.report.comparison_text import comparison_markdown, headline
from exogpu.report.page import comparison_html, write_report
from exogpu.report.snapshot import saved, snapshot_json, snapshot_of

GOLDEN = Path(__file__).parent / "golden"
FENCE = "            Fence(cuda_in_order, cuda_in_order)\n"
OLD = f"""\
from exogpu import *


@proc
def reverse(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            tile: f32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 64, unit=cuda_thread):
                tile[t] = x[m, t]
{FENCE}            for t in cuda_threads(0, 64, unit=cuda_thread):
                y[m, t] = tile[63 - t]
{FENCE}

@proc
def gone(n: size, x: f32[n] @ DRAM):
    for i in seq(0, n):
        x[i] = 0.0
"""
TWICE = """\
            for t in cuda_threads(0, 64, unit=cuda_thread):
                y[m, t] += tile[t]
"""
NEW = OLD.replace("def gone", "def fresh").replace(f"63 - t]\n{FENCE}", f"63 - t]\n{TWICE}{FENCE}")
BROKEN = OLD.replace(FENCE, "", 1)


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("old", OLD), ("new", NEW), ("broken", BROKEN)):
        (tmp_path / f"{name}.py").write_text(text)

    def run(*arguments: str):
        return CliRunner().invoke(app, ["report", *arguments])

    return run


def test_against_another_file(call, golden, tmp_path):
    """The Markdown alone is on standard output, for a comment; a page stands beside it."""
    result = call("new.py", "-o", "out", "--against", "old.py")
    assert result.exit_code == 0, result.output
    golden(GOLDEN / "comparison.md", result.stdout)
    assert (tmp_path / "out/comparison.md").read_text() == result.stdout
    assert "reverse: proved, out/reverse/report.html" in result.stderr
    page = (tmp_path / "out/comparison.html").read_text()
    assert "1 changed, 1 new, 1 gone" in page and "<script" not in page


def test_what_is_refuted_now(call, golden):
    result = call("broken.py", "-o", "out", "--against", "old.py")
    assert result.exit_code == 1
    golden(GOLDEN / "comparison_broken.md", result.stdout)


def test_what_is_mended(call):
    result = call("old.py", "-o", "out", "--against", "broken.py")
    assert "| `reverse` | refuted | **proved** |" in result.stdout
    assert "RAW, was broken, now holds: Line 13 sees what line 10 wrote to tile" in result.stdout
    assert "There was no proof before" in result.stdout


@pytest.mark.slow
def test_against_an_earlier_report(call, tmp_path):
    """A folder says what its file said; it may be written anew by the same command."""
    assert call("old.py", "-o", "out").exit_code == 0
    of_folder = call("new.py", "-o", "other", "--against", "out").stdout
    of_file = call("new.py", "-o", "other", "--against", "old.py").stdout
    # Of folders the order is that of their names.
    assert of_folder == of_file.replace("old.py", "out")
    again = call("new.py", "-o", "out", "--against", "out").stdout
    assert again == of_folder
    assert call("new.py", "-o", "out", "--against", "out").stdout.startswith(
        "## exogpu: 1 gone, 2 the same"
    )
    one = call("old.py::reverse", "-o", "third", "--against", "other/reverse")
    assert one.stdout.startswith("## exogpu: 1 changed\n")
    # Of one procedure the others are not gone.
    one = call("old.py::reverse", "-o", "third", "--against", "other")
    assert one.stdout.startswith("## exogpu: 1 changed\n")


def test_against_a_certificate_alone(call, tmp_path):
    """Obligations are compared, chains and sources are not."""
    assert call("old.py", "-o", "out").exit_code == 0
    for file in (tmp_path / "out").rglob("report.json"):
        file.unlink()
    same = call("old.py", "-o", "other", "--against", "out")
    assert same.stdout.startswith("## exogpu: 2 the same\n"), same.stdout
    text = call("new.py::reverse", "-o", "other", "--against", "out/reverse").stdout
    assert "- new: RAW: Line 15 sees what line 10 wrote to tile" in text
    assert "a certificate alone" in text and "```diff" not in text


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "exogpu report", "version": 2}'])
def test_nothing_to_compare_with(call, tmp_path, text):
    folder = tmp_path / "empty"
    folder.mkdir()
    if text:
        (folder / "report.json").write_text(text)
        result = call("old.py", "-o", "out", "--against", "empty")
        assert result.exit_code == 2 and "X983" in result.stderr
    else:
        assert call("old.py", "-o", "out", "--against", "empty").exit_code == 2
        assert call("old.py", "-o", "out", "--against", "nowhere.py").exit_code == 2
    assert not (tmp_path / "out").exists()


def test_a_report_is_read_as_it_was_written(tmp_path):
    for made in (
        build(reverse, verdict_of(reverse, proof_of(reverse, 2))),
        build(hazardous, hazardous.check_at(M=2)),
        build(hostile, verdict_of(hostile, proof_of(hostile))),
    ):
        written = write_report(tmp_path / "one", made)
        assert saved(tmp_path / "one") == (written,) == (snapshot_of(made),)


def test_what_is_no_report_is_refused(tmp_path):
    """Every value of another type, a field less, and a number of no claim."""
    one = snapshot_of(build(reverse, verdict_of(reverse, proof_of(reverse))))
    text = snapshot_json(one)
    value = json.loads(text)
    file = tmp_path / "report.json"
    for at in range(len(value["report"])):
        other = json.loads(text)
        other["report"][at] = {"no": "such"}
        file.write_text(json.dumps(other))
        with pytest.raises(ValueError):
            saved(tmp_path)
        del other["report"][at]
        file.write_text(json.dumps(other))
        with pytest.raises(ValueError):
            saved(tmp_path)
    (first, *rest) = one.synchronising
    file.write_text(
        snapshot_json(replace(one, synchronising=(replace(first, needed_by=(3,)), *rest)))
    )
    with pytest.raises(ValueError, match="not there"):
        saved(tmp_path)
    file.write_text(text)
    assert saved(tmp_path) == (one,)


def test_nothing_changed_where_lines_moved():
    """What is told apart are statements, not their lines; a chain counts, its order of ways does
    not."""
    one = snapshot_of(build(reverse, verdict_of(reverse, proof_of(reverse, 2))))
    moved = replace(
        one,
        numbers=tuple(number + 7 for number in one.numbers),
        claims=tuple(replace(c, said=c.said.replace("ine ", "ine 1")) for c in one.claims),
        synchronising=tuple(replace(s, line=s.line + 7) for s in one.synchronising),
    )
    assert headline(compared([one], [moved], "it")) == "1 the same"
    (first, *rest) = one.claims
    (found,) = compared(
        [one], [replace(one, claims=(replace(first, chains=()), *rest))], ""
    ).procedures
    assert [claim.change for claim in found.claims] == ["changed"]
    # Of two obligations about the same one is gone.
    (found,) = compared(
        [one], [replace(one, claims=one.claims[:-1], synchronising=())], ""
    ).procedures
    assert [claim.change for claim in found.claims] == ["gone"]
    assert {sync.change for sync in found.synchronising} == {"gone"}


def test_two_procedures_of_one_name_keep_their_order():
    proved = snapshot_of(build(reverse, verdict_of(reverse, proof_of(reverse))))
    refuted = snapshot_of(build(replaced(), replaced().check_at(M=2)))
    found = compared([proved, refuted], [proved, refuted, proved], "it")
    assert [one.change for one in found.procedures] == ["same", "same", "new"]
    found = compared([proved, refuted], [refuted], "it")
    assert [one.change for one in found.procedures] == ["changed", "gone"]


def replaced():
    """The hazardous procedure under the other's name."""
    from exogpu.api import Procedure

    return Procedure("reverse", replace(hazardous.ir, name="reverse"), ())


def test_everything_is_escaped():
    one = snapshot_of(build(hostile, verdict_of(hostile, proof_of(hostile))))
    other = replace(
        one, badge="refuted", claims=(), synchronising=(), numbers=(1,), source=("``` " + HOSTILE,)
    )
    found = compared([one], [other], HOSTILE)
    text, page = comparison_markdown(found), comparison_html(found)
    assert "<img" not in page and page.count("<script") == 0
    inside = text.partition("````diff\n")[2].partition("\n````")[0]
    assert "<img" in inside  # in a fence that what is in it cannot end
    rest = text.replace(inside, "")
    assert "<img" not in rest.replace("\\<img", "").replace(f"`{one.name}`", "").replace(
        HOSTILE, ""
    )


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("width", [1000, 400])
def test_a_comparison_does_not_scroll_sideways(tmp_path, width):
    one = snapshot_of(build(reverse, verdict_of(reverse, proof_of(reverse))))
    wide = ("x" * 90, *one.source)
    numbers = (1, *one.numbers)
    other = replace(one, badge="refuted", claims=(), synchronising=(), numbers=numbers, source=wide)
    file = tmp_path / "page.html"
    file.write_text(comparison_html(compared([one], [other, replace(one, name="n" * 70)], "it")))
    with Browser() as browser:
        browser.resize(width, 800)
        browser.open(file)
        assert browser.js("document.scrollingElement.scrollWidth") <= width
        assert browser.errors == []
