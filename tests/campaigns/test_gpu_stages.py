"""Failures are made smaller, counted, and told: none is lost between the stages."""

from __future__ import annotations

import json

import pytest

from campaigns import gpu_fuzz
from campaigns.gpu import page, sanitizing, shrinking
from campaigns.gpu.programs import generated
from campaigns.named import names, program_of
from campaigns.reach.generate import SHAPES
from exogpu.gpu_trial import pool
from exogpu.gpu_trial.run_data import write_packed
from tests.trial import fake_judge, fake_program


def test_a_failure_is_made_smaller():
    """What is kept is the failure; here, a Fence of a kernel and an input that is read."""
    program = generated(1)
    wanted = "Fence(cuda_in_order, cuda_in_order)"
    assert wanted in program.source
    tries = []

    def keeps(source):
        tries.append(source)
        return wanted in source and "x1" in source.partition("def ")[2]

    found = shrinking.smaller(program.source, keeps)
    assert keeps(found) and len(found) < len(program.source) / 2
    assert found.count("Fence") == 1 and "cuda_threads" not in found
    count = len(tries)
    shrinking.smaller(program.source, lambda source: not tries.append(source), tries=20)
    assert len(tries) - count == 20


EMITTED = {
    "f:1": {"state": "packed", "features": ["a", "b"]},
    "f:2": {"state": "packed", "features": ["a"]},
    "f:3": {"state": "packed", "features": ["a"]},
    "f:4": {"state": "refuted", "what": "RAW", "features": ["b"]},
    "f:5": {"state": "no lowering", "code": "G803", "what": "y2 is odd", "features": ["b"]},
    "f:6": {"state": "no cubin", "what": "error", "features": []},
    "f:7": {"died": "exit status -11"},
}
BAD = {"sizes": {"M": 3}, "clusters": 0, "what": "y1: 1 of 32 elements"}
RAN = {
    "/f/fuzz_1.zip": {"runs": 9, "wrong": []},
    "/f/fuzz_2.zip": {"runs": 9, "wrong": [BAD]},
    "/f/fuzz_3.zip": {"hang": 60.0},
}


def test_only_what_is_right_in_all_runs_counts_as_right():
    found = page.summary(EMITTED, RAN)
    assert (found.runs, found.right) == (18, 1)
    assert list(found.wrong) == ["fuzz_2"] and found.hangs == ["fuzz_3"]
    assert set(found.failures) == {"fuzz_6", "fuzz_7"}
    assert found.refusals == {"G803 ... is odd": 1}
    row = found.features["a"]
    assert (row.programs, row.proved, row.run, row.right) == (3, 3, 3, 1)
    assert found.features["b"].proved == 2


def test_the_page_names_every_failure():
    made = page.text(page.summary(EMITTED, RAN), "make gpu-fuzz", "a GPU", {"memcheck": "silent"})
    for word in ("fuzz_2", "fuzz_3", "fuzz_6", "fuzz_7", "G803", "memcheck: silent", "| a | 3 |"):
        assert word in made
    clean = page.text(page.summary({}, {}), "make gpu-fuzz", "a GPU", {})
    assert "None was wrong." in clean and "None hung." in clean


@pytest.mark.parametrize(
    ("status", "output", "state"),
    [
        (0, "========= ERROR SUMMARY: 0 errors", "silent"),
        (0, "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", "silent"),
        (9, "========= Invalid __global__ read\n========= ERROR SUMMARY: 1 error", "loud"),
        (0, "========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)", "loud"),
        (1, "========= ERROR SUMMARY: 0 errors", "loud"),
        (0, "", "loud"),
        (0, "Error: Device not supported", "not run"),
    ],
)
def test_a_tool_is_silent_only_if_it_says_so(status, output, state):
    assert sanitizing.judged(status, output)["state"] == state


def test_a_second_run_replaces_the_first_in_the_journal(tmp_path):
    path = tmp_path / "run.jsonl"
    lines = [{"cases": 2}, *({"case": c, "result": {"hang": 1}} for c in ("a", "b"))]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    gpu_fuzz.rewrite(path, {"b": {"runs": 1, "wrong": []}})
    assert page.journal(path) == {"a": {"hang": 1}, "b": {"runs": 1, "wrong": []}}


def test_every_stage_has_arguments():
    parser = gpu_fuzz.parser()
    for words in (["emit"], ["run"], ["sanitize"], ["write"], ["coverage"], ["one", "f"]):
        assert parser.parse_args(words).stage == words[0]
    assert parser.parse_args(["shrink", "7", "--gpu"]).name == "7"


def test_programs_are_called_by_seed_or_by_shape_and_seed():
    chosen = names(len(SHAPES) + 1, 3, "reach")
    assert [name.rpartition("_")[2] for name in chosen] == ["3"] * len(SHAPES) + ["4"]
    for name in (*names(1, 7, None), *names(1, 7, "stores"), chosen[0]):
        program = program_of(name)
        assert page.name_of(f"folder:{name}") == program.name
    for made in (lambda: names(1, 0, "novel"), lambda: program_of("novel_3")):
        with pytest.raises(SystemExit, match="novel"):
            made()


def test_a_campaign_runs_and_tells_what_is_wrong(tmp_path, monkeypatch, capsys):
    """Programs 1 and 5 are right, 2 is wrong, 3 hangs, 4 breaks the device's context."""
    packed = fake_program.packed()
    for number in range(1, 6):
        write_packed(tmp_path / f"fuzz_{number}.zip", packed)
    monkeypatch.setattr(pool, "run_one", fake_judge.run_one)
    words = ["run", "-o", str(tmp_path), "--jobs", "2", "--seconds", "1.5"]
    assert gpu_fuzz.run(gpu_fuzz.parser().parse_args(words)) == 1
    said = capsys.readouterr().out
    assert "2 of 5 programs right" in said and "fuzz_3: HANGS" in said
    assert "fuzz_2: WRONG: y: 32 of 32 elements" in said and "fuzz_4: WRONG" in said
    # With --resume nothing runs again.
    noted = (tmp_path / "run.jsonl").read_text()
    monkeypatch.setattr(pool, "run_one", None)
    monkeypatch.setattr(gpu_fuzz, "on_this_machine", lambda *given: [])
    assert gpu_fuzz.run(gpu_fuzz.parser().parse_args([*words, "--resume"])) == 1
    assert (tmp_path / "run.jsonl").read_text() == noted


def test_the_page_is_written_whole_and_failures_are_the_exit_status(tmp_path):
    def write(name, results):
        lines = [{"cases": len(results)}, *({"case": c, "result": r} for c, r in results.items())]
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))

    (tmp_path / "page.md").write_text("<!-- begin gpu-fuzz -->\n<!-- end gpu-fuzz -->\n")
    words = ["write", "-o", str(tmp_path), "--page", str(tmp_path / "page.md")]
    options = gpu_fuzz.parser().parse_args(words)
    assert gpu_fuzz.write(options) == 2  # nothing was run
    good = {"/f/fuzz_1.zip": {"runs": 9, "wrong": [], "device": "A Hopper"}}
    write("emit.jsonl", {"f:1": EMITTED["f:1"]})
    write("run.jsonl", good)
    assert gpu_fuzz.write(options) == 0
    assert "A Hopper" in (tmp_path / "page.md").read_text()
    write("sanitize.jsonl", {"memcheck:f": {"state": "silent"}, "racecheck:f": {"state": "loud"}})
    assert gpu_fuzz.write(options) == 1
    assert "racecheck: not silent on 1 of 1 programs" in (tmp_path / "page.md").read_text()
    write("sanitize.jsonl", {})
    write("emit.jsonl", EMITTED)
    write("run.jsonl", RAN)
    assert gpu_fuzz.write(options) == 1
