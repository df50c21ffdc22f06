"""Campaigns lose no case and count none twice, whatever becomes of their workers."""

from __future__ import annotations

import json
import os
import signal

import pytest

from campaigns import cases
from tests.campaigns import judges

CASES = [str(n) for n in range(40)]
LOCAL = cases.Options(jobs=2, scheduler=None, resume=False)


@pytest.fixture(autouse=True)
def root(monkeypatch, tmp_path):
    """Journals go into a folder of the test; workers import from the real one."""
    monkeypatch.setattr(cases.Journal, "folder", tmp_path)
    return tmp_path


def squares(results) -> dict[str, int]:
    return {case: result.get("square") for case, result in results.items()}


EXPECTED = {case: int(case) ** 2 for case in CASES}


def test_every_case_is_judged_once_and_in_order():
    results = cases.judge_all("test", CASES, judges.square, LOCAL)
    assert list(results) == CASES and squares(results) == EXPECTED
    assert len({result["pid"] for result in results.values()}) == 2


def test_a_worker_that_is_killed_loses_nothing(tmp_path):
    named = [f"{tmp_path}:{case}" for case in CASES]
    results = cases.judge_all("test", named, judges.once_deadly, LOCAL)
    assert list(squares(results).values()) == list(EXPECTED.values())


def test_a_case_that_kills_every_worker_is_named():
    results = cases.judge_all("test", CASES, judges.deadly, LOCAL)
    assert results["3"] == {"died": "exit status 9"}
    assert squares(results) == EXPECTED | {"3": None}


def test_a_campaign_goes_on_where_it_stopped(tmp_path):
    cases.judge_all("test", CASES, judges.square, LOCAL)
    journal = tmp_path / "test.jsonl"
    lines = journal.read_text().splitlines()
    # Killed after ten results, in the middle of a line.
    journal.write_text("\n".join(lines[:11]) + "\n" + lines[11][:9])
    before = {json.loads(line)["case"]: json.loads(line)["result"] for line in lines[1:11]}
    results = cases.judge_all("test", CASES, judges.square, cases.Options(2, None, resume=True))
    assert squares(results) == EXPECTED
    assert {case: results[case] for case in before} == before
    assert {result["pid"] for case, result in results.items() if case not in before}.isdisjoint(
        result["pid"] for result in before.values()
    )


def test_progress_is_said_in_lines_where_there_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr(cases._Lines, "EVERY", 0.0)
    cases.judge_all("test", CASES[:3], judges.square, LOCAL)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and lines[-1].startswith("test: 3 of 3 in ")
    cases.judge_all("test", CASES[:3], judges.square, cases.Options(2, None, resume=True))
    monkeypatch.setattr(cases._Lines, "EVERY", 1000.0)
    cases.judge_all("test", CASES[:3], judges.square, LOCAL)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_another_campaigns_journal_is_not_taken_up():
    cases.judge_all("test", CASES, judges.square, LOCAL)
    with pytest.raises(SystemExit, match="another campaign"):
        cases.judge_all("test", CASES[:9], judges.square, cases.Options(2, None, resume=True))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.ci
def test_a_cluster_whose_worker_is_killed_loses_nothing(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setenv("PYTHONPATH", str(cases.ROOT))
    many = [str(n) for n in range(200)]
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        found = []
        for case, result in cases.on_cluster(cluster.scheduler_address, many, judges.slow):
            found.append((case, result["square"]))
            if len(found) == 20:
                os.kill(result["pid"], signal.SIGKILL)
    assert sorted(found) == sorted((case, int(case) ** 2) for case in many)


def test_a_part_is_written_between_its_comments(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A\n<!-- begin x -->\nold\n<!-- end x -->\n<!-- begin y -->\n<!-- end y -->\n"
    )
    for _ in range(2):
        cases.write_section("x", "# New\n\n## Below\n", page)
    part = "<!-- begin x -->\n\n## New\n\n### Below\n\n<!-- end x -->\n"
    assert page.read_text() == f"# A\n{part}<!-- begin y -->\n<!-- end y -->\n"
    with pytest.raises(ValueError, match="no part z"):
        cases.write_section("z", "text", page)
    assert part in page.read_text()


def test_the_page_has_a_part_of_each_campaign():
    page = cases.CAMPAIGNS.read_text()
    for name in (
        *("agreement", "agreement-running", "agreement-further", "agreement-reach"),
        *("mutants", "rules", "schedules", "hostile", "emulated", "emulated-reach"),
        *("gpu-fuzz", "gpu-fuzz-reach"),
    ):
        assert page.count(f"<!-- begin {name} -->") == page.count(f"<!-- end {name} -->") == 1


def test_a_page_is_written_whole(tmp_path):
    page = tmp_path / "page.md"
    cases.write_whole(page, "first\n")
    cases.write_whole(page, "second\n")
    assert page.read_text() == "second\n" and list(tmp_path.iterdir()) == [page]
