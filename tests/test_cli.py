"""The command line: exit status, one-screen messages, and what tools read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from exogpu.cli import progress_display, redundancy
from exogpu.cli.commands import app
from exogpu.cli.progress_display import Watch
from exogpu.diagnostics.codes import CODES
from exogpu.machine import fast
from exogpu.pipeline.check import Answer
from exogpu.symbolic.search.analysis import Findings

ROOT = Path(__file__).parent.parent

HEAD = "from exogpu.api import proc\n\n@proc\n"

# The second loop reads what other threads wrote: a hazard without the fence, safe with it.
REVERSE = """\
def reverse(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
    assert M % 2 == 0
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            tile: f32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 64, unit=cuda_thread):
                tile[t] = x[m, t]
            {fence}
            for t in cuda_threads(0, 64, unit=cuda_thread):
                y[m, t] = tile[63 - t]
            Fence(cuda_in_order, cuda_in_order)
"""
SAFE = HEAD + REVERSE.format(fence="Fence(cuda_in_order, cuda_in_order)")
HAZARD = HEAD + REVERSE.format(fence="pass")
SCALE = """
@proc
def scale(N: size, z: f32[N] @ DRAM):
    for i in seq(0, N):
        z[i] = z[i] * 2.0
"""
NO_SIZES = "def fixed(z: f32[4] @ DRAM):\n    z[0] = 1.0\n"
# Both procedures are wrong, each in its own way.
TWO_ERRORS = (
    HEAD
    + "def first(N: size, z: f32[N] @ Nowhere):\n    pass\n"
    + SCALE.replace("z[i] =", "z[i * i] =")
)


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Runs the command in an empty folder; the result has exit_code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, **files):
        for name, text in files.items():
            Path(f"{name}.py").write_text(text)
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result
        return result

    return run


# --- verdicts -----------------------------------------------------------------------------


def test_the_demo_proves_a_kernel_and_says_where_its_report_is(call):
    result = call("demo", "-o", "out")
    assert result.exit_code == 0 and "proved for all sizes" in result.stdout
    page = result.stdout.partition("opens in a browser: ")[2].splitlines()[0]
    assert page.startswith("out/") and Path(page).exists()


def test_safe(call):
    result = call("check", "k.py", "--at", "M=4", k=SAFE)
    assert result.exit_code == 0
    assert result.stdout.startswith("reverse: safe at M=4 (")
    assert "policy ptx" in result.stdout


@pytest.mark.parametrize("policy", ["ptx", "paper", "strict"])
def test_hazard_shows_both_lines(call, policy):
    result = call("check", "k.py", "--at", "M=4", "--policy", policy, k=HAZARD)
    assert result.exit_code == 1
    assert f"policy {'paper' if policy == 'paper' else 'ptx'}" in result.stdout
    # Line 10 writes the tile, line 13 reads it.
    assert "k.py:10:17: the write" in result.stdout
    assert "k.py:13:17: the read" in result.stdout
    for fact in ("RAW on tile", "^^^", "by thread", "cuda2", "missing: ", "repair: ", "replayed"):
        assert fact in result.stdout


def test_proved_for_all_sizes(call):
    result = call("check", "k.py", k=SAFE)
    assert result.exit_code == 0
    assert result.stdout.startswith("reverse: proved for all sizes (")


@pytest.fixture
def no_answer(monkeypatch):
    """The proof for all sizes comes to no end."""
    monkeypatch.setattr(
        "exogpu.pipeline.check.answer", lambda program, tell: Answer(NOTHING, reason="planted")
    )


NOTHING = Findings((), (), 0, False)


def test_of_what_is_undecided_the_concrete_check_is_offered(call, no_answer):
    result = call("check", "k.py", k=SAFE)
    assert result.exit_code == 3
    assert "undecided for all sizes" in result.stdout
    assert "planted" in result.stdout and "M=64" in result.stdout


def test_a_procedure_without_sizes_needs_none(call):
    assert call("check", "k.py", k=HEAD + NO_SIZES).exit_code == 0


def test_of_several_the_first_of_2_1_3(call):
    assert call("check", "k.py", "--at", "M=4,N=4", k=SAFE + SCALE).exit_code == 0
    assert call("check", "a.py", "--at", "M=4,N=4", a=HAZARD + SCALE).exit_code == 1
    # scale has no value for N here, and is not checked.
    assert call("check", "b.py", "--at", "M=4", b=HAZARD + SCALE).exit_code == 1
    assert call("check", ".", "--at", "M=4,N=4").exit_code == 1


def test_one_procedure_of_a_file(call):
    result = call("check", "k.py::scale", "--at", "N=4", k=HAZARD + SCALE)
    assert result.exit_code == 0
    assert "reverse" not in result.stdout


def test_timeout_is_undecided(call):
    result = call("check", "k.py", "--at", "M=4", "--timeout", "0", k=SAFE)
    assert result.exit_code == 3
    assert "the time limit of 0 s ran out while loading k.py" in result.stdout


def test_a_mistake_of_the_checker_is_undecided_and_said_so(call, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(fast, "run", fail)
    monkeypatch.delenv("EXOGPU_DEBUG", raising=False)
    result = call("check", "k.py", "--at", "M=4", k=SAFE)
    assert result.exit_code == 3
    assert "planted" in result.stdout and "bug in exogpu" in result.stdout


# --- targets ------------------------------------------------------------------------------


def test_folder_module_and_package(call, monkeypatch, tmp_path):
    Path("pkg").mkdir()
    Path("pkg/__init__.py").write_text("")
    Path("pkg/one.py").write_text(SAFE)
    Path("pkg/two.py").write_text(
        "from .one import reverse\n" + HEAD + SCALE.partition("\n@proc\n")[2]
    )
    Path("pkg/other.py").write_text("raise SystemExit('not to be executed')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for target in ("pkg", str(tmp_path / "pkg")):
        result = call("check", target, "--at", "M=4,N=4")
        assert result.exit_code == 0, result.stdout
        # Imported procedures belong to the file that defines them.
        assert result.stdout.count("reverse: safe") == 1
        assert result.stdout.endswith("2 procedures: 2 safe\n")
    assert "scale" in call("check", "pkg.two", "--at", "N=4").stdout


def test_what_a_file_prints_does_not_disturb_json(call):
    result = call("check", "k.py", "--at", "M=4", "--json", k=SAFE + "print('hello')\n")
    assert json.loads(result.stdout)[0]["verdict"] == "proved"


def test_a_file_may_share_the_name_of_a_loaded_module(call):
    assert call("check", "json.py", "--at", "M=4", json=SAFE).exit_code == 0
    assert json.loads("1") == 1


# --- bad input: a message with the place and the remedy, status 2, no traceback -----------

BAD_FILES = {
    "no Python": ("def f(:\n", (), "k.py:1:7: error X942"),
    "binary": ("\x00\x01", (), "error X942"),
    "no procedure": ("x = 1\n", (), "error X943: k.py has no procedure"),
    "raises": ("x = 1\nx.y.z\n", (), "k.py:2:1: error X944"),
    "missing import": ("import no_such_module_at_all\n", (), "k.py:1:1: error X944"),
    "exits": ("import sys\nsys.exit(0)\n", (), "k.py:2:1: error X944"),
    "unknown memory": (TWO_ERRORS, (), "k.py:4:32: error P102"),
    "index not affine": (TWO_ERRORS, (), "k.py:10:11: error T204"),
    "unknown size": (SAFE, ("--at", "M=4,Q=4"), "error X901"),
    "unknown size of several": (SAFE + SCALE, ("--at", "M=4,N=4,Q=4"), "error X901"),
    "missing size": (SAFE, ("--at", ""), "error X902"),
    "zero size": (SAFE, ("--at", "M=0"), "k.py:4:13: error X903"),
    "negative size": (SAFE, ("--at", "M=-2"), "k.py:4:13: error X903"),
    "broken precondition": (SAFE, ("--at", "M=3"), "k.py:5:12: error X904"),
    "no integer": (SAFE, ("--at", "M=four"), "error X946"),
    "no value": (SAFE, ("--at", "M"), "error X946"),
    "two values": (SAFE, ("--at", "M=4", "--at", "M=6"), "error X946"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_input(call, case):
    text, arguments, expected = BAD_FILES[case]
    result = call("check", "k.py", *arguments, k=text)
    assert result.exit_code == 2
    assert expected in result.stdout
    assert "remedy: " in result.stdout
    assert "Traceback" not in result.stdout + result.stderr
    assert len(result.stdout.splitlines()) < 24


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("absent.py", "X941"),
        ("kernel.py", "did you mean k.py?"),
        ("absent/k.py", "X941"),
        ("no_such_module_at_all.sub", "X941"),
        ("sys", "X942"),
        ("notes.txt", "X942"),
        ("k.py::revers", "did you mean reverse?"),
        ("empty", "X943"),
        ("", "X94"),
    ],
)
def test_bad_target(call, target, expected):
    Path("notes.txt").write_text("no Python")
    Path("empty").mkdir()
    result = call("check", target, k=SAFE)
    assert result.exit_code == 2
    assert expected in result.stdout
    assert "remedy: " in result.stdout


def test_all_diagnostics_of_a_file_come_together(call):
    result = call("check", "k.py", k=TWO_ERRORS)
    assert "P102" in result.stdout and "T204" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["check"],
        ["check", "k.py", "--policy", "lenient"],
        ["check", "k.py", "--timeout", "soon"],
        ["frobnicate"],
        ["explain", "Z999"],
        ["run", "k.py"],
        ["run", "k.py", "--random"],
        ["run", "k.py", "--random", "--at", "M=3"],
        ["threads", "absent.py"],
        ["amir", "absent.py"],
        ["check", "k.py", "--at", "M=4", "--sarif", "absent/out.sarif"],
    ],
    ids=" ".join,
)
def test_wrong_calls(call, arguments):
    result = call(*arguments, k=SAFE)
    assert result.exit_code == 2
    assert result.stderr
    assert "Traceback" not in result.stderr


# --- what tools read ----------------------------------------------------------------------


def test_json_of_a_hazard(call):
    (element,) = json.loads(call("check", "k.py", "--at", "M=4", "--json", k=HAZARD).stdout)
    assert (element["proc"], element["verdict"]) == ("reverse", "refuted")
    assert element["sizes"] == {"M": 4}
    (hazard,) = element["hazards"]
    assert (hazard["kind"], hazard["variable"], hazard["replayed"]) == ("RAW", "tile", True)
    assert (hazard["first"]["line"], hazard["second"]["line"]) == (10, 13)
    assert hazard["second"]["text"].startswith("y[m, t] = tile[")
    assert hazard["second"]["iteration"].keys() == {"m", "t"}


def test_json_of_what_is_proved(call):
    (element,) = json.loads(call("check", "k.py", "--json", k=SAFE).stdout)
    assert (element["verdict"], element["sizes"], element["reason"]) == ("proved", "all", "")
    assert element["obligations"]["RAW"] >= 1 and element["obligations"]["FREE"] >= 1


def test_json_of_all_sizes_and_of_errors(call, no_answer):
    (element,) = json.loads(call("check", "k.py", "--json", k=SAFE).stdout)
    assert (element["verdict"], element["sizes"]) == ("undecided", "all")
    assert element["reason"] and element["obligations"] == {}
    result = call("check", "absent.py", "--json")
    (element,) = json.loads(result.stdout)
    assert (result.exit_code, element["verdict"]) == (2, "error")
    assert element["diagnostics"][0]["code"] == "X941"


def test_the_broken_link_is_shown(call):
    link = "no synchronisation stands between the write of line 10 and the read at line 13"
    assert f"  chain: {link}\n" in call("check", "k.py", "--at", "M=4", k=HAZARD).stdout
    # A refutation for all sizes has it too, from its replay.
    result = call("check", "k.py", "--json", "--sarif", "out.sarif", k=HAZARD)
    assert json.loads(result.stdout)[0]["hazards"][0]["link"] == link
    assert link in Path("out.sarif").read_text()


TAIL = """\
def tail(M: size, x: f32[M] @ DRAM):
    for i in seq(0, (M + 3) / 4):
        for j in seq(0, 4):
            x[4 * i + j] = 0
"""


def test_safe_sizes_are_told(call):
    result = call("check", "k.py", k=HEAD + TAIL)
    assert result.exit_code == 1
    assert result.stdout.endswith("\nsafe iff M mod 4 = 0\n")
    (element,) = json.loads(call("check", "k.py", "--json", k=HEAD + TAIL).stdout)
    assert element["condition"] == "M mod 4 = 0"
    # Nothing is said where every size fails, nor of given sizes.
    assert "safe iff" not in call("check", "k.py", k=HAZARD).stdout
    assert "safe iff" not in call("check", "k.py", "--at", "M=5", k=HEAD + TAIL).stdout


EXTRA = "Fence(cuda_in_order, cuda_in_order)\n            Fence(cuda_in_order, cuda_in_order)"


@pytest.mark.parametrize("at", [(), ("--at", "M=2")])
def test_redundant_synchronisation_is_named(call, at):
    plain = call("check", "k.py", *at, k=SAFE)
    result = call("check", "k.py", "--redundant", *at, k=SAFE)
    assert result.exit_code == plain.exit_code
    # Each fence of SAFE is needed; the last one orders the reuse of memory only.
    assert "k.py:14:13: stronger than needed" in result.stdout
    assert "enough: Fence(cuda_in_order, cuda_temporal)" in result.stdout
    assert ": redundant" not in result.stdout
    arguments = ("check", "k.py", "--redundant", "--json", *at)
    (element,) = json.loads(call(*arguments, k=HEAD + REVERSE.format(fence=EXTRA)).stdout)
    deleted = [one for one in element["redundant"] if one["kind"] == "delete"]
    assert [[s["line"] for s in one["statements"]] for one in deleted] == [[11], [12]]
    # Not asked, and not asked of what is refuted.
    (element,) = json.loads(call("check", "k.py", "--json", *at, k=SAFE).stdout)
    assert element["redundant"] is None
    (element,) = json.loads(call(*arguments, k=HAZARD).stdout)
    assert element["redundant"] is None


def test_redundancy_keeps_to_its_time(call, monkeypatch):
    monkeypatch.setattr(redundancy, "redundant", lambda *_: time.sleep(60))
    result = call("check", "k.py", "--redundant", "--timeout", "3", k=SAFE)
    assert result.exit_code == call("check", "k.py", k=SAFE).exit_code
    assert "stronger than needed" not in result.stdout


def test_sarif_and_junit_files(call):
    arguments = ("--at", "M=4", "--sarif", "out.sarif", "--junit", "out.xml")
    assert call("check", "k.py", *arguments, k=HAZARD).exit_code == 1
    log = json.loads(Path("out.sarif").read_text())
    (result,) = log["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "k.py"
    assert place["region"]["startLine"] == 13
    suite = ElementTree.parse("out.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")


def test_pipe_output_is_plain_and_a_real_process_exits_right(tmp_path):
    (tmp_path / "k.py").write_text(HAZARD)
    command = [sys.executable, "-m", "exogpu", "check", "k.py", "--at", "M=4"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, env=environment, check=False)
    assert done.returncode == 1
    assert b"\x1b" not in done.stdout + done.stderr
    assert done.stderr == b""


# --- other commands -----------------------------------------------------------------------


def test_run_prints_shapes_and_checksums(call):
    result = call("run", "k.py", "--random", "--at", "M=4", k=SAFE)
    assert result.exit_code == 0
    x, y = result.stdout.splitlines()[1:]
    assert "float32[4, 64] unchanged" in x
    assert "float32[4, 64] written" in y
    # A row reversed has the same sum; another seed gives other data.
    assert x.split("sum ")[1].split(",")[0] == y.split("sum ")[1].split(",")[0]
    assert call("run", "k.py", "--random", "--at", "M=4", k=SAFE).stdout == result.stdout
    other = call("run", "k.py", "--random", "--at", "M=4", "--seed", "1", k=SAFE)
    assert other.stdout.splitlines()[1] != x


def test_threads_names_the_executing_threads_of_each_scope(call):
    result = call("threads", "k.py", k=SAFE + SCALE)
    assert result.exit_code == 0
    assert "all 64 threads of the CTA" in result.stdout
    assert "thread t of the CTA" in result.stdout
    assert "scale\n  runs on the CPU alone" in result.stdout
    assert "-> [t]" not in result.stdout
    assert "] -> [t = " in call("threads", "k.py", "--relations", k=SAFE).stdout


def test_amir_lists_and_exports(call):
    text = call("amir", "k.py", k=SAFE).stdout
    assert "Fence" in text and "CheckMutates" in text
    (program,) = json.loads(call("amir", "k.py", "--json", k=SAFE).stdout)
    assert program["name"] == "reverse"
    assert program["body"]


def test_explain(call):
    assert CODES["B601"].title in call("explain", "b601").stdout
    listed = call("explain").stdout
    assert all(code in listed for code in CODES)


def test_doctor_finds_this_installation_in_order(call):
    result = call("doctor")
    assert result.exit_code == 0
    assert "islpy" in result.stdout and "z3-solver" in result.stdout


def test_doctor_works_without_the_solvers(tmp_path):
    """The part that a user calls because something is missing must not need it."""
    blocked = "import sys; sys.modules['islpy'] = sys.modules['z3'] = None; "
    code = blocked + "from exogpu.cli.commands import main; sys.argv[1:] = ['doctor']; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2, done.stderr
    assert "pip install --force-reinstall islpy" in done.stdout


# --- progress -----------------------------------------------------------------------------


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress_display, "perf_counter", clock)
    return clock


def test_a_bar_appears_after_two_seconds_and_only_where_asked(clock):
    step = fast.Progress(tasks_done=3, tasks=10, operations=5000)
    with Watch("k", True) as watch, Watch("k", False) as quiet:
        clock.now = 1.9
        watch(step)
        assert not watch.visible
        clock.now = 2.1
        watch(step)
        quiet(step)
        assert watch.visible
        assert not quiet.visible
