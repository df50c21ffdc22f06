"""The language server, asked by a client over standard input and output."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.lsp_client import Client

HEAD = "from __future__ import annotations\nfrom exogpu import *\n\n"
FENCE = "            Fence(cuda_in_order, cuda_in_order)\n"
REVERSE = """@proc
def reverse(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            tile: f32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 64, unit=cuda_thread):
                tile[t] = x[m, t]
            for t in cuda_threads(0, 64, unit=cuda_thread):
                y[m, t] = tile[63 - t]
"""
LOOP = "            for t in cuda_threads"
HAZARD = HEAD + REVERSE + FENCE
SAFE = HEAD + FENCE.join(REVERSE.rsplit(LOOP, 1)[0:1]) + FENCE + LOOP + REVERSE.rsplit(LOOP, 1)[1]
SAFE += FENCE
PLAIN = (
    HEAD
    + "@proc\ndef fill(n: size, z: f32[n] @ DRAM):\n    for i in seq(0, n):\n        z[i] = 1.0\n"
)

ENDLESS = "import exogpu\nwhile True:\n    pass\n"

PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    made = Client(tmp_path_factory.mktemp("project"), loading=60)
    yield made
    made.kill()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Client]:
    """A server of a test's own, which gives files little time."""
    made = Client(tmp_path, loading=2)
    yield made
    made.kill()


def codes(found: list[dict]) -> list[str]:
    return [one["code"] for one in found]


def worker_of(client: Client) -> int:
    """The process that executes files, once there is one."""
    workers: set[int] = set()
    end = time.monotonic() + 30
    while len(workers) != 1 and time.monotonic() < end:
        children = Path(f"/proc/{client.process.pid}/task").glob("*/children")
        workers = {int(pid) for file in children for pid in file.read_text().split()}
        time.sleep(0.05)
    (worker,) = workers
    return worker


# --- findings -----------------------------------------------------------------------------------


def test_open_break_and_fix(client: Client) -> None:
    client.open("typed.py", SAFE)
    assert client.found("typed.py") == []
    assert client.verdicts("typed.py") == ["proved for all sizes (11 obligations)"]
    # The first Fence is deleted as an editor tells it: by its range.
    start = client.position("typed.py", FENCE.strip())
    line = {"line": start["line"], "character": 0}, {"line": start["line"] + 1, "character": 0}
    cut = {"range": {"start": line[0], "end": line[1]}, "text": ""}
    client.edit("typed.py", HAZARD, cut)
    (hazard,) = client.found("typed.py")
    assert hazard["code"] == "H701" and "RAW on tile[63] at M=1" in hazard["message"]
    assert hazard["range"]["start"] == client.position("typed.py", "y[m, t] = ")
    first, second = hazard["relatedInformation"]
    assert first["location"]["range"]["start"] == client.position("typed.py", "tile[t] = ")
    assert second["location"]["range"] == hazard["range"]
    assert client.verdicts("typed.py") == ["refuted: 1 hazard"]
    assert client.hover("typed.py", "def reverse").startswith("**reverse**: refuted: 1 hazard")
    client.change("typed.py", SAFE)
    assert client.found("typed.py") == []


def test_a_quick_fix_makes_it_proved(client: Client) -> None:
    client.open("fixed.py", HAZARD)
    (hazard,) = client.found("fixed.py")
    (action,) = client.actions("fixed.py", hazard)
    assert action["isPreferred"] and action["title"].endswith("(proved then)")
    assert action["diagnostics"][0]["code"] == "H701"
    client.apply("fixed.py", action)
    assert client.texts["fixed.py"] == SAFE
    assert client.found("fixed.py") == []
    assert client.verdicts("fixed.py") == ["proved for all sizes (11 obligations)"]


def test_one_action_mends_several_hazards(client: Client) -> None:
    client.open("several.py", HEAD + REVERSE)
    found = client.found("several.py")
    assert sorted(codes(found)) == ["H701", "H704", "H704"]
    whole, *single = client.actions("several.py", found[0])
    assert whole["title"] == "Repair all hazards of reverse (proved then)"
    assert len(single) == 2 and not any(action["isPreferred"] for action in single)
    client.apply("several.py", whole)
    assert client.found("several.py") == [] and client.texts["several.py"] == SAFE


def test_ends_of_lines_and_characters_beyond_ascii(client: Client) -> None:
    """The protocol counts in UTF-16, and an edit keeps the ends of lines."""
    text = HAZARD.replace("y[m, t] = tile[63 - t]", "y[m, t] = tile[63 - t]  # \U0001f980 é")
    text = text.replace("x[m, t]\n", "x[m, t]  # \U0001f980\n").replace("\n", "\r\n")
    text = text.replace("@proc", 'CRAB = "\U0001f980\U0001f980"; OTHER = undefined\r\n\r\n@proc')
    client.open("crab.py", text)
    (wrong,) = client.found("crab.py")
    assert wrong["code"] == "X944" and "undefined" in wrong["message"]
    text = text.replace("; OTHER = undefined", "")
    client.change("crab.py", text)
    (hazard,) = client.found("crab.py")
    (action,) = client.actions("crab.py", hazard)
    client.apply("crab.py", action)
    assert client.found("crab.py") == []
    assert client.texts["crab.py"].count("\r\n") == client.texts["crab.py"].count("\n")
    # A place behind characters of two units, on one line.
    client.change(
        "crab.py", PLAIN.replace("z[i] = 1.0", "z[i * n] = 1.0 + 0.0 * z[i]  # \U0001f980")
    )
    (wrong,) = client.found("crab.py")
    assert wrong["range"]["start"] == client.position("crab.py", "i * n")


def test_a_syntax_error(client: Client) -> None:
    client.open("syntax.py", SAFE.replace("with Cuda", "with with Cuda"))
    (wrong,) = client.found("syntax.py")
    assert wrong["code"] == "X942" and wrong["range"]["start"]["line"] == 5
    assert client.hover("syntax.py", "tile") == "" and client.verdicts("syntax.py") == []
    client.change("syntax.py", SAFE)
    assert client.found("syntax.py") == []


def test_ill_formed_beside_proved(client: Client) -> None:
    text = PLAIN + "\n" + REVERSE.replace("tile[t] = x", "tiles[t] = x")
    client.open("ill.py", text)
    client.found("ill.py")
    assert client.hover("ill.py", "from exogpu") == "", "all is told then"
    (wrong, *_) = client.found("ill.py")
    assert wrong["code"].startswith("P") and "remedy: " in wrong["message"]
    assert client.verdicts("ill.py") == ["proved for all sizes (2 obligations)", "ill-formed"]


def test_out_of_bounds_is_shown_where_it_is(client: Client) -> None:
    client.open("outside.py", PLAIN.replace("z[i]", "z[i + 1]"))
    (wrong,) = client.found("outside.py")
    assert wrong["code"] == "B601"
    assert wrong["range"]["start"] == client.position("outside.py", "z[i + 1]")


# --- what is said of places ---------------------------------------------------------------------


def test_hovers(client: Client) -> None:
    client.open("hover.py", SAFE)
    assert client.found("hover.py") == []
    fence = client.hover("hover.py", "Fence")
    assert "Needed by 2 obligations" in fence and "**RAW** tile" in fence
    assert "Executed by all 64 threads of the CTA." in fence
    loop = client.hover("hover.py", "for t in")
    assert "an iteration is executed by thread t of the CTA" in loop
    assert "all 64 threads" in client.hover("hover.py", "for m in")
    assert client.hover("hover.py", "def reverse").endswith("proved for all sizes (11 obligations)")
    assert client.hover("hover.py", "from exogpu") == ""
    extra = SAFE.replace(FENCE, FENCE + FENCE, 1)
    client.change("hover.py", extra)
    assert client.found("hover.py") == []
    said = [client.hover("hover.py", "Fence", at) for at in (1, 2, 3)]
    assert sum("Redundant" in one for one in said) == 1


def test_hovers_on_an_instruction_and_an_await(client: Client) -> None:
    """Of a GEMM, whose statements stand in macros."""
    gemm = Path(__file__).parent.parent / "exogpu" / "kernels" / "gemm_sm90.py"
    text = gemm.read_text().partition("CLUSTERS =")[0] + "kernel = make_gemm(1, 1, 128, 64)\n"
    client.open("gemm.py", text)
    assert client.found("gemm.py") == []
    wgmma = client.hover("gemm.py", "Sm90_wgmma_tf32(")
    assert "**Sm90_wgmma_tf32**(D, A, B) with M=64, N=64" in wgmma
    assert "unit: `cuda_warpgroup`" in wgmma and "wgmma read of shared memory (wgS)" in wgmma
    await_ = client.hover("gemm.py", "Await(full")
    assert "Needed by" in await_ and "RAW" in await_ and "Executed by" in await_


# --- several files ------------------------------------------------------------------------------

SHARED = HEAD + "@macro\ndef store(z, i):\n    z[i] = 1.0\n"
USER = (
    HEAD
    + "from shared import store\n\n@proc\ndef fill(n: size, z: f32[n] @ DRAM):\n"
    + "    for i in seq(0, n):\n        store(z, i)\n"
)


def test_two_files_neither_saved_and_one_renamed(client: Client) -> None:
    client.open("shared.py", SHARED)
    client.open("user.py", USER)
    assert client.found("shared.py") == [] and client.found("user.py") == []
    # What is wrong in a macro is shown where it is used, and points there.
    client.change("shared.py", SHARED.replace("z[i]", "z[i + 1]"))
    (wrong,) = client.again("user.py")
    assert wrong["code"] == "B601"
    assert any(r["location"]["uri"] == client.uri("shared.py") for r in wrong["relatedInformation"])
    client.change("shared.py", SHARED)
    assert client.again("user.py") == []
    # The file moves: the other one does not find it until it says so.
    client.close("shared.py")
    client.open("renamed.py", SHARED)
    files = [{"oldUri": client.uri("shared.py"), "newUri": client.uri("renamed.py")}]
    client.tell("workspace/didRenameFiles", files=files)
    (wrong,) = client.again("user.py")
    assert wrong["code"] == "X944" and "No module named 'shared'" in wrong["message"]
    assert wrong["range"]["start"] == client.position("user.py", "from shared")
    client.change("user.py", USER.replace("from shared", "from renamed"))
    assert client.found("user.py") == []
    # What is on the disk counts where nothing is open.
    (client.folder / "shared.py").write_text(SHARED.replace("z[i]", "z[i - 1]"))
    client.change("user.py", USER)
    assert codes(client.found("user.py")) == ["B601"]
    (client.folder / "shared.py").write_text(SHARED)
    client.tell("workspace/didChangeWatchedFiles", changes=[{"uri": files[0]["oldUri"], "type": 2}])
    assert client.again("user.py") == []


def test_the_text_of_the_editor_counts_and_not_that_of_the_disk(client: Client) -> None:
    (client.folder / "both.py").write_text(HAZARD)
    client.open("both.py", SAFE)
    assert client.found("both.py") == []
    client.change("both.py", HAZARD)
    assert codes(client.found("both.py")) == ["H701"]
    assert (client.folder / "both.py").read_text() == HAZARD
    client.close("both.py")
    assert client.again("both.py") == [], "what is closed is not underlined"


def test_a_file_without_kernels_is_not_executed(client: Client) -> None:
    """An editor opens any file: opening one runs nothing that is not a file of kernels."""
    touched = client.folder / "touched"
    text = f"from pathlib import Path\nPath({str(touched)!r}).touch()\nsyntax error\n"
    client.open("plain.py", text)
    assert client.found("plain.py") == [] and not touched.exists()
    assert client.hover("plain.py", "Path") == "" and client.verdicts("plain.py") == []
    client.change("plain.py", text.replace("syntax error", "import exogpu"))
    assert client.found("plain.py") == []
    assert client.hover("plain.py", "Path") == "" and touched.exists()
    client.change("plain.py", "import exogpu\nwrong")
    assert codes(client.found("plain.py")) == ["X944"]
    client.change("plain.py", "wrong")
    assert client.found("plain.py") == []


# --- files that misbehave -----------------------------------------------------------------------


def test_a_file_that_comes_to_no_end_is_told_of(own: Client) -> None:
    own.open("safe.py", SAFE)
    assert own.found("safe.py") == []
    own.open("endless.py", ENDLESS)
    # Meanwhile the server answers.
    assert "Needed by" in own.hover("safe.py", "Fence")
    (wrong,) = own.found("endless.py")
    assert "came to no end within 2 s" in wrong["message"]
    own.change("endless.py", SAFE)
    assert own.found("endless.py") == []


def test_a_check_of_a_text_that_has_changed_is_given_up(client: Client) -> None:
    """Its file would be executed for a minute."""
    client.open("stale.py", "import exogpu, time\ntime.sleep(1000)\n")
    client.change("stale.py", ENDLESS)
    client.change("stale.py", SAFE)
    start = monotonic()
    assert client.found("stale.py") == []
    assert monotonic() - start < 50, "the limit of loading is 60 s"


MISBEHAVING = {
    "exits": ("import exogpu, os\nos._exit(3)\n", "ended its process (exit status 3)"),
    "crashes": ("import exogpu, ctypes\nctypes.string_at(0)\n", "ended its process (SIGSEGV)"),
    "leaves": ("import exogpu\nraise SystemExit('enough')\n", "enough"),
    "kills": (
        "import exogpu, os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n",
        "process ended",
    ),
}


@pytest.mark.slow
def test_a_file_that_ends_its_process_is_survived(own: Client) -> None:
    own.open("bad.py", SAFE)
    for text, said in MISBEHAVING.values():
        own.change("bad.py", text)
        (wrong,) = own.found("bad.py")
        assert said in wrong["message"]
        own.change("bad.py", SAFE)
        assert own.found("bad.py") == []
    assert own.end() == 0


def test_what_a_file_prints_and_reads_is_not_the_protocol_s(client: Client) -> None:
    noise = "import os, sys\nprint('Content-Length: 3')\nos.write(1, b'{}\\n')\n"
    noise += "assert sys.stdin.read() == ''\nsys.stdout.close()\n"
    client.open("noisy.py", SAFE.replace("@proc", noise + "\n@proc"))
    assert client.found("noisy.py") == []


def test_a_worker_that_is_killed_is_replaced(own: Client) -> None:
    own.open("kernel.py", SAFE)
    assert own.found("kernel.py") == []
    os.kill(worker_of(own), signal.SIGKILL)
    own.change("kernel.py", HAZARD)
    assert codes(own.found("kernel.py")) == ["H701"]


def test_no_process_outlives_the_server(own: Client) -> None:
    own.open("endless.py", ENDLESS)
    until = monotonic() + 60
    while (
        not list(Path(f"/proc/{own.process.pid}/task").glob("*/children")) and monotonic() < until
    ):
        sleep(0.05)
    sleep(0.5)
    worker = worker_of(own)
    own.process.kill()
    while Path(f"/proc/{worker}").exists() and monotonic() < until:
        sleep(0.05)
    assert not Path(f"/proc/{worker}").exists()


# --- many edits ---------------------------------------------------------------------------------

EDITS = int(os.environ.get("EXOGPU_LSP_EDITS", "60"))


def memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def test_memory_is_steady_over_many_edits(client: Client) -> None:
    """With EXOGPU_LSP_EDITS=500 as many: what a hundred edits add, the next do not."""
    client.open("often.py", SAFE)
    worker = worker_of(client)
    sizes = []
    for number in range(EDITS):
        text = f"# {number}\n" * (number % 7) + (SAFE if number % 2 else PLAIN) + f"# {number}\n"
        client.change("often.py", text)
        assert client.found("often.py") == []
        sizes.append(memory(client.process.pid) + memory(worker))
    half = sizes[len(sizes) // 2]
    assert sizes[-1] < half + 16 * 2**20, [size // 2**20 for size in sizes[:: len(sizes) // 10]]
    assert worker_of(client) == worker
