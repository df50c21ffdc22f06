"""Translation validation of kernels of the tutorial, and of PTX that is spoilt."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from exogpu.cli.commands import app
from exogpu.codegen.toolchain import find_toolchain
from exogpu.validate.validate_folder import Validation, manifests_in, validate_manifest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_toolchain() is None, reason="no NVRTC or nvcc here"),
]

TUTORIAL = Path(__file__).parent.parent.parent / "examples" / "tutorial"

REVERSE = """
from __future__ import annotations
from exogpu import *

@proc
def reverse(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            tile: f32[64] @ CudaSmemLinear
            for t in cuda_threads(0, 64, unit=cuda_thread):
                tile[t] = x[m, t]
            Fence(cuda_in_order, cuda_in_order)
            for t in cuda_threads(0, 64, unit=cuda_thread):
                y[m, t] = tile[63 - t]
            Fence(cuda_in_order, cuda_in_order)
"""

RING = """
from __future__ import annotations
from exogpu import *
from exogpu.platforms.sm80 import Sm80_cp_async_copy

@proc
def ring(
    M: size,
    K: size,
    x: f32[M, 256 * K] @ CudaGmemLinear,
    y: f32[M, 256 * K] @ CudaGmemLinear,
):
    with CudaDeviceFunction(blockDim=64):
        for m in cuda_tasks(0, M):
            tile: f32[2, 256] @ CudaSmemLinear
            g: barrier[64] @ CudaCommitGroup
            for k in seq(0, K):
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    Sm80_cp_async_copy(
                        tile[k % 2, 4 * t : 4 * t + 4],
                        x[m, 256 * k + 4 * t : 256 * k + 4 * t + 4],
                    )
                    Arrive(Sm80_cp_async) >> g[t]
                    Await(g[t], cuda_in_order, 0)
                Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    for j in seq(0, 4):
                        y[m, 256 * k + 64 * j + t] = tile[k % 2, 255 - 64 * j - t]
            Fence(cuda_in_order, cuda_in_order)
"""

INCREASE = """
from __future__ import annotations
from exogpu import *

@proc
def increase(n: size, x: f32[n] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=128):
        for b in cuda_tasks(0, (n + 127) / 128):
            for t in cuda_threads(0, 128, unit=cuda_thread):
                if 128 * b + t < n:
                    x[128 * b + t] = x[128 * b + t] + 1.0
"""

SOURCES: dict[str, Callable[[], str]] = {
    "reverse": lambda: REVERSE,
    "ring": lambda: RING,
    "increase": lambda: INCREASE,
    "copy": (TUTORIAL / "copy.py").read_text,
    "transpose": (TUTORIAL / "tiles.py").read_text,
    "column_sums": (TUTORIAL / "double_buffer.py").read_text,
    "tma_ring": lambda: (TUTORIAL / "ring.py").read_text().replace("column_sums", "tma_ring"),
}

HOPPER = ("tma_ring",)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A folder with the compiled kernel of a name, compiled once."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            place = tmp_path_factory.mktemp(name)
            (place / f"{name}.py").write_text(SOURCES[name]())
            command = ["compile", str(place / f"{name}.py"), "-o", str(place / "out"), "--ptx"]
            arch = "sm_90a" if name in HOPPER else "sm_80"
            assert CliRunner().invoke(app, [*command, "--arch", arch]).exit_code == 0
            made[name] = place / "out"
        return made[name]

    return folder


def validate(folder: Path) -> Validation:
    ((path, manifest),) = manifests_in(folder).items()
    (found,) = validate_manifest(path, manifest)
    return found


@pytest.mark.parametrize("name", SOURCES)
def test_kernels_are_validated_for_all_sizes(name: str, compiled: Callable[[str], Path]) -> None:
    found = validate(compiled(name))
    assert found.refusal is None
    assert found.events


def without(pattern: str, which: int) -> Callable[[str], str]:
    return instead(pattern, "", which)


def instead(pattern: str, new: str, which: int = 0) -> Callable[[str], str]:
    """The text with one place that matches the pattern replaced."""

    def spoil(text: str) -> str:
        places = list(re.finditer(pattern, text))
        place = places[which]
        return text[: place.start()] + place.expand(new) + text[place.end() :]

    return spoil


def moved(pattern: str, which: int, behind: str) -> Callable[[str], str]:
    """The text with an instruction moved behind the next that matches."""

    def spoil(text: str) -> str:
        place = list(re.finditer(pattern, text))[which]
        rest = text[place.end() :]
        after = re.search(behind, rest)
        assert after is not None
        cut = after.end()
        return text[: place.start()] + rest[:cut] + "\n" + place[0] + rest[cut:]

    return spoil


BARRIER = r"bar\.sync \t0;"
COMMIT = r"cp\.async\.commit_group;"
ONE_LANE = r"setp\.ne\.s32 (\t%p\d+, %r\d+), 0;"
NO_LANE = r"setp.eq.s32 \1, -7;"
FENCE = r"fence\.proxy\.async\.shared::cta;"
STORE = r"st\.global\.f32[^;]*;"

MUTANTS = {
    "the first barrier removed": ("reverse", without(BARRIER, 0)),
    "the last barrier removed": ("reverse", without(BARRIER, -1)),
    "the barrier behind the load": ("reverse", moved(BARRIER, 0, r"ld\.shared\.f32[^;]*;")),
    "another barrier": ("reverse", instead(BARRIER, "bar.sync \t1;")),
    "a barrier of half the threads": ("reverse", instead(BARRIER, "bar.sync \t0, 32;")),
    "62 - t": ("reverse", instead(r"mov\.u32 \t(%r\d+), 63;", r"mov.u32 \t\1, 62;")),
    "rows of 65": ("reverse", instead(r"(mul\.wide\.s32 [^;]*), 64;", r"\1, 65;")),
    "a task too many": ("reverse", instead(r"setp\.lt\.s32", "setp.le.s32")),
    "the first task left out": ("reverse", instead(r"setp\.ge\.s32", "setp.gt.s32")),
    "not by the number of CTAs": (
        "reverse",
        instead(r"add\.s32 \t(%r\d+), \1, %r\d+;", r"add.s32 \t\1, \1, 1;"),
    ),
    "the store left out": ("reverse", without(STORE, 0)),
    "the store twice": ("reverse", instead(f"({STORE})", r"\1 \1")),
    "a store to global memory in shared memory": (
        "reverse",
        instead(r"st\.shared", "st.global"),
    ),
    "a load of two": ("reverse", instead(r"ld\.shared\.f32", "ld.shared.f64")),
    "a load of what is written, by the read-only path": (
        "increase",
        instead(r"ld\.global\.f32", "ld.global.nc.f32"),
    ),
    "an exchange of addresses": (
        "reverse",
        instead(r"(st\.shared\.f32 \t)\[%r\d+\]", r"\1[%r3]"),
    ),
    "an unknown instruction": ("reverse", instead(BARRIER, "bar.sync \t0; vote.sync.any.pred p;")),
    "a fence of a space that is not known": ("reverse", instead(BARRIER, "membar.cta;")),
    "the guard turned round": ("copy", instead(r"setp\.ge\.s32 \t%p2", "setp.lt.s32 \t%p2")),
    "the guard too weak": ("copy", instead(r"setp\.ge\.s32 \t%p2", "setp.gt.s32 \t%p2")),
    "blocks of 128": ("copy", instead(r"shl\.b32 (\t%r\d+, %r\d+), 8;", r"shl.b32 \1, 7;")),
    "a warp that is another": ("transpose", instead(r"shfl\.sync\.idx", "shfl.sync.up")),
    "rows of 32": ("transpose", instead(r", 33, ", ", 32, ")),
    "one side of the guard alone": ("transpose", instead(r"or\.pred", "and.pred")),
    "a group more in flight": ("column_sums", instead(r"wait_group 0", "wait_group 1", 1)),
    "no wait": ("column_sums", without(r"cp\.async\.wait_group 1;", 0)),
    "a commit removed": ("column_sums", without(COMMIT, 1)),
    "the copy behind its commit": (
        "column_sums",
        moved(r"cp\.async\.cg[^;]*;", 0, COMMIT),
    ),
    "the other slot": ("column_sums", instead(r"(add\.s32 \t%r\d+, %r\d+), 2048;", r"\1, 1024;")),
    "copies of 8 bytes": ("column_sums", instead(r"(cp\.async\.c)g([^;]*), 16;", r"\1a\2, 8;")),
    "turns by 3": ("column_sums", instead(r"(add\.s32 \t%r\d+, %r\d+), 8;", r"\1, 12;")),
    "the ring twice as long": ("ring", instead(r"(and\.b32 [^;]*), 1024;", r"\1, 2048;", 1)),
    "four turns that count for three": (
        "ring",
        instead(r"add\.s32 \t(%r\d+), \1, 4;", r"add.s32 \t\1, \1, 3;"),
    ),
    "a remainder that is too short": (
        "ring",
        instead(r"setp\.eq\.s32 (\t%p\d+, %r\d+), 2;", r"setp.eq.s32 \1, 3;"),
    ),
    "no proxy fence behind the task": ("tma_ring", without(FENCE, 0)),
    "no proxy fence before a copy": ("tma_ring", without(FENCE, 1)),
    "another phase": ("tma_ring", instead(r"shr\.u32 (\t%r\d+, %r\d+), 3;", r"shr.u32 \1, 4;")),
    "a shorter ring of mbarriers": (
        "tma_ring",
        instead(r"and\.b32 ( \t%r\d+, %r\d+), 56;", r"and.b32 \1, 24;"),
    ),
    "half of the bytes": ("tma_ring", instead(r"(mov\.u32 \t%r\d+), 4096;", r"\1, 2048;")),
    "a phase of eight arrivals": (
        "tma_ring",
        instead(r"(mov\.u32 \t%r\d+), 4;(?=\s+// begin inline asm\s+mbarrier)", r"\1, 8;"),
    ),
    "five waits skipped": (
        "tma_ring",
        instead(r"(mov\.u32 \t%r\d+), 4;(?=\s+mov\.u32 \t%r\d+, 0;)", r"\1, 5;"),
    ),
    "no arrival": ("tma_ring", without(r"mbarrier\.arrive\.release[^;]*;", 0)),
    "an arrival that releases nothing": (
        "tma_ring",
        instead(r"mbarrier\.arrive\.release\.cta", "mbarrier.arrive.relaxed.cta"),
    ),
    "no wait of the consumer": (
        "tma_ring",
        instead(r"mbarrier\.try_wait\.parity[^;]*;", "setp.eq.s32 done, 0, 0;"),
    ),
    "coordinates exchanged": (
        "tma_ring",
        instead(r"\{(%r\d+), (%r\d+)\}\]", r"{\2, \1}]"),
    ),
    "another slot of the copy": (
        "tma_ring",
        instead(r"shl\.b32 (\t%r\d+, %r\d+), 12;", r"shl.b32 \1, 11;"),
    ),
    "no barrier behind the task": ("tma_ring", without(r"barrier\.cta\.sync 0;", 0)),
    "mbarriers that are not published": (
        "tma_ring",
        without(r"fence\.mbarrier_init\.release\.cluster;", 0),
    ),
    "no meeting of the warp": ("tma_ring", without(r"bar\.warp\.sync \t-1;", 0)),
    "every thread initialises": ("tma_ring", instead(ONE_LANE, NO_LANE, 0)),
    "every lane arrives": ("tma_ring", instead(ONE_LANE, NO_LANE, 1)),
    "every lane copies": ("tma_ring", instead(ONE_LANE, NO_LANE, 2)),
    "every lane of the producer arrives": ("tma_ring", instead(ONE_LANE, NO_LANE, 3)),
    "copies by all lanes": (
        "tma_ring",
        instead(r"(and\.b32  \t%r\d+, %r\d+), 31;", r"\1, 0;"),
    ),
}


@pytest.mark.parametrize("what", MUTANTS)
def test_spoilt_ptx_is_not_validated(
    what: str, compiled: Callable[[str], Path], tmp_path: Path
) -> None:
    name, spoil = MUTANTS[what]
    original = compiled(name)
    text = (original / f"{name}.ptx").read_text()
    assert spoil(text) != text
    (tmp_path / f"{name}.json").write_bytes((original / f"{name}.json").read_bytes())
    (tmp_path / f"{name}.ptx").write_text(spoil(text))
    (tmp_path / f"{name}.certificate").symlink_to(original / f"{name}.certificate")
    found = validate(tmp_path)
    assert found.refusal is not None, what
    assert found.refusal.problem


def test_the_command_says_why(compiled: Callable[[str], Path], tmp_path: Path) -> None:
    original = compiled("reverse")
    result = CliRunner().invoke(app, ["validate", str(original)])
    assert result.exit_code == 0
    assert "reverse: validated (" in result.output
    text = (original / "reverse.ptx").read_text()
    (tmp_path / "reverse.json").write_bytes((original / "reverse.json").read_bytes())
    (tmp_path / "reverse.certificate").symlink_to(original / "reverse.certificate")
    (tmp_path / "reverse.ptx").write_text(MUTANTS["62 - t"][1](text))
    result = CliRunner().invoke(app, ["validate", str(tmp_path), "--record"])
    assert result.exit_code == 3
    assert (
        "reverse: not validated: an access has another address" in " ".join(result.output.split())
        or "has another address" in result.output
    )
    assert "y[m, t] = tile[63 - t]" in result.output
    assert "for example: " in result.output
    (recorded,) = json.loads((tmp_path / "reverse.json").read_text())["validated"]
    assert recorded["validated"] is False and recorded["by"]
    result = CliRunner().invoke(app, ["validate", str(tmp_path / "nothing")])
    assert result.exit_code == 2


def test_another_certificate_is_refused(compiled: Callable[[str], Path], tmp_path: Path) -> None:
    original = compiled("reverse")
    manifest = json.loads((original / "reverse.json").read_text())
    manifest["checked"]["certificate"] = "0" * 64
    (tmp_path / "reverse.json").write_text(json.dumps(manifest))
    (tmp_path / "reverse.ptx").write_bytes((original / "reverse.ptx").read_bytes())
    (tmp_path / "reverse.certificate").symlink_to(original / "reverse.certificate")
    found = validate(tmp_path)
    assert found.refusal is not None
    assert found.refusal.problem == "the manifest names another certificate"


def test_variables_that_share_bytes_are_refused(
    compiled: Callable[[str], Path], tmp_path: Path
) -> None:
    original = compiled("reverse")
    manifest = json.loads((original / "reverse.json").read_text())
    manifest["steps"][0]["shared"][0]["offset"] = 4
    (tmp_path / "reverse.json").write_text(json.dumps(manifest))
    (tmp_path / "reverse.ptx").write_bytes((original / "reverse.ptx").read_bytes())
    (tmp_path / "reverse.certificate").symlink_to(original / "reverse.certificate")
    found = validate(tmp_path)
    assert found.refusal is not None
    assert "does not lie within" in found.refusal.problem
