"""Alloc, Check, Clear and Release where the conversion never puts them: rejected unasked."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import pytest

from campaigns.reach import generate as reach
from exogpu import Procedure, proc
from exogpu.isa.cuda import cuda_memcpy_to_host, cuda_shfl_xor
from exogpu.solvers import smt
from exogpu.symbolic.certificate.lifetime_rules import check_lifetimes
from exogpu.symbolic.certificate.recheck import recheck
from exogpu.symbolic.certificate.write import write_certificate
from tests.cases.certificates.nest import nest
from tests.cases.certificates.ring import ring
from tests.forging import PROGRAM, Alter, Content, change, find, problems
from tests.machine.shapes import sources
from tests.machine.shapes.host import host
from tests.machine.shapes.windows import windows


@proc
def staged(n: size, m: size, d: f32[n, m] @ CudaGmemLinear, sums: f32[n] @ DRAM):
    for i in seq(0, n):
        row: f32[m] @ DRAM
        cuda_memcpy_to_host(m, row[:], d[i, :])
        Fence(cuda_stream_sync, cpu_in_order)
        for k in seq(0, m):
            sums[i] += row[k]


@proc
def butterfly(x: f32[32] @ CudaGmemLinear, y: f32[32] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            a: f32[32, 2]
            for t in cuda_threads(0, 32, unit=cuda_thread):
                a[t, 0] = x[t]
            cuda_shfl_xor(a[:, 1], a[:, 0], mask=1)
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[t] = a[t, 1]


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Procedure], Path]:
    """Certificates, each made once."""

    @cache
    def write(procedure: Procedure) -> Path:
        folder = tmp_path_factory.mktemp(procedure.name) / procedure.name
        verdict = procedure.check()
        assert verdict.word == "proved", verdict.reason
        write_certificate(folder, procedure, verdict)
        return folder

    return write


Places = list[tuple[list[Content], int]]


def places(program: Content, kind: str, name: str, *, free: bool | None = None) -> Places:
    """Where operations of a kind on a variable stand."""
    return [
        (block, at)
        for block, at in find(program["body"], kind)
        if name in (block[at].get("variable"), block[at].get("access", {}).get("variable"))
        and free in (None, block[at].get("free"))
    ]


def moved(kind: str, name: str, to: int, *, free: bool | None = None) -> Alter:
    """The first such operation by some places in its block."""

    def alter(program: Content) -> None:
        block, at = places(program, kind, name, free=free)[0]
        block.insert(at + to, block.pop(at))

    return alter


def dropped(kind: str, name: str, *, free: bool | None = None) -> Alter:
    def alter(program: Content) -> None:
        block, at = places(program, kind, name, free=free)[0]
        del block[at]

    return alter


def twice(kind: str, name: str) -> Alter:
    def alter(program: Content) -> None:
        block, at = places(program, kind, name)[0]
        block.insert(at, dict(block[at]))

    return alter


def to_the_front(kind: str, name: str) -> Alter:
    """First of all, at CPU scope or not."""

    def alter(program: Content) -> None:
        block, at = places(program, kind, name)[0]
        program["body"].insert(0, block.pop(at))

    return alter


def within(kind: str, name: str, *, free: bool) -> Alter:
    """The operation in a guard of its own, in no iteration."""

    def alter(program: Content) -> None:
        block, at = places(program, kind, name, free=free)[0]
        op = block[at]
        rest = {key: op[key] for key in ("file", "line", "column", "text", "threads")}
        block[at] = {"op": "Guard", "condition": "(0 = 1)", "body": [op], **rest}

    return alter


def cleared_before_a_read(program: Content) -> None:
    """Where nothing is written: the record of the write is gone."""
    block, at = places(program, "CheckMutates", "tile", free=False)[-1]
    check = block[at]
    rest = {key: check[key] for key in ("file", "line", "column", "text", "threads")}
    block.insert(at, {"op": "ClearMutates", "access": dict(check["access"]), **rest})


def looped(program: Content) -> None:
    """A check for the first thread alone, in a loop of the statement's own."""
    block, at = places(program, "CheckMutates", "y", free=False)[0]
    op = block[at]
    rest = {key: op[key] for key in ("file", "line", "column", "text", "threads")}
    loop = {"op": "Loop", "iterator": "once", "lo": "(0)", "hi": "(1)", "mode": "seq"}
    block[at] = {**loop, "body": [op], **rest}


def changed(kind: str, name: str, **values: object) -> Alter:
    def alter(program: Content) -> None:
        for block, at in places(program, kind, name, free=True):
            block[at].update(values)

    return alter


def partly(program: Content) -> None:
    for kind in ("CheckReads", "CheckMutates"):
        for block, at in places(program, kind, "tile", free=True):
            block[at]["access"]["coords"][1] = ["(0)", "(16)"]


def of_another(program: Content) -> None:
    for kind in ("CheckReads", "CheckMutates"):
        for block, at in places(program, kind, "tile", free=True):
            block[at]["access"] = {"variable": "full", "coords": []}


def unmarked(program: Content) -> None:
    """As if it were memory of the device."""
    for one in program["variables"]:
        one.pop("host", None)


def marked(program: Content) -> None:
    program["variables"][0]["host"] = True


def given_where_read(program: Content) -> None:
    """Each read of the tile gives the values that it asks for."""
    for block, at in places(program, "CheckInitialised", "tile"):
        access = {"op": "Initialise", "access": block[at]["access"], "uninit": False}
        block[at] = {**access, **{k: v for k, v in block[at].items() if k not in access}}


def unimportant(program: Content) -> None:
    """The values of all that is written do not matter."""
    for block, at in places(program, "Initialise", "tile"):
        block[at]["uninit"] = True


RING: dict[str, tuple[Alter, str]] = {
    "a release before its check": (
        moved("Release", "tile", -1),
        "releases tile without CheckReads, CheckMutates of it right before",
    ),
    "a release before both": (moved("Release", "tile", -2), "releases tile without CheckReads"),
    "a release between two statements": (moved("Release", "tile", -3), "releases tile without"),
    "a release of a barrier first": (moved("Release", "full", -3), "releases full without CheckB"),
    "checks in another order": (moved("CheckReads", "tile", 1, free=True), "releases tile without"),
    "a check of an end dropped": (dropped("CheckMutates", "tile", free=True), "releases tile with"),
    "a balance dropped": (dropped("CheckBarrier", "full"), "full has no CheckBarrier"),
    "a balance after its release": (moved("CheckBarrier", "full", 3), "releases full without"),
    "a check of an end elsewhere": (moved("CheckReads", "tile", -4, free=True), "releases tile"),
    "a check of an end in a guard": (within("CheckMutates", "tile", free=True), "releases tile w"),
    "a second release": (twice("Release", "tile"), "has a second Release of tile"),
    "a second allocation": (twice("Alloc", "tile"), "has a second Alloc of tile"),
    "a release elsewhere": (to_the_front("Release", "tile"), "releases tile without"),
    "an allocation elsewhere": (
        to_the_front("Alloc", "tile"),
        "tile is of a task if it is allocated",
    ),
    "an allocation after a use": (moved("Alloc", "tile", 4), "uses tile before its Alloc"),
    "fewer threads": (
        changed("CheckReads", "tile", threads="{ [] -> [t] : t = 0 }"),
        "by other threads than those that release it",
    ),
    "a lower level at an end": (changed("CheckReads", "tile", level="unordered"), "asks less"),
    "one thread at an end": (changed("CheckMutates", "tile", convergent=True), "asks less"),
    "another timeline at an end": (changed("CheckReads", "tile", timelines=["tmaS"]), "asks less"),
    "a part of it at its end": (partly, "checks a part of tile at its end"),
    "the end of another": (of_another, "checks something else than the end of tile"),
    "a check after its record": (
        moved("CheckMutates", "tile", 3, free=False),
        "has ClearMutates of tile, and no CheckMutates before it",
    ),
    "a check after its clear": (moved("CheckReads", "tile", 2, free=False), "no CheckReads before"),
    "a check in a guard": (within("CheckMutates", "tile", free=False), "no CheckMutates before it"),
    "a check in its own loop": (looped, "no CheckMutates before"),
    "a clear of what is read": (cleared_before_a_read, "has ClearMutates of tile, and no CheckMut"),
    "a read that asks for no value": (
        dropped("CheckInitialised", "tile"),
        "reads tile, and does not ask whether it has been written",
    ),
    "values given where they are read": (given_where_read, "reads tile, and does not ask"),
    "values that do not matter": (unimportant, "is no uninit of tile"),
    "a parameter that ends": (marked, "x is allocated nowhere"),
}

STAGED: dict[str, tuple[Alter, str]] = {
    "a release before its check": (moved("Release", "row", -1), "releases row without CheckReads"),
    "no checks": (
        lambda p: [dropped("CheckMutates", "row", free=True)(p) for _ in range(1)],
        "releases row without CheckReads, CheckMutates",
    ),
    "memory of the device": (unmarked, "has CheckReads of an end, and no Release right after it"),
    "another scope": (
        lambda p: [
            changed(kind, "row", threads="{ [] -> [t] : t = 0 }")(p)
            for kind in ("CheckReads", "CheckMutates", "Release")
        ],
        "by other threads than those that release it",
    ),
    "another timeline": (changed("CheckMutates", "row", timelines=["strm"]), "asks less"),
}


def asked_after_it_is_given(program: Content) -> None:
    """The shuffle asks for the values of its source when it has given those of its target."""
    given = [(b, at) for b, at in places(program, "Initialise", "a") if "shfl" in b[at]["text"]]
    asked = [(b, at) for b, at in places(program, "CheckInitialised", "a")]
    (ours, last), theirs = given[-1], [b[at] for b, at in asked if "shfl" in b[at]["text"]]
    ours[last + 1 : last + 1] = theirs
    for block, at in asked:
        if block[at] in theirs:
            block.pop(at)


def test_a_shuffle(written: Callable[[Procedure], Path], tmp_path: Path) -> None:
    says = "asks for values of a after it has given them"
    refused(written(butterfly), tmp_path, asked_after_it_is_given, says)


@pytest.mark.parametrize("what", RING)
def test_a_ring(written: Callable[[Procedure], Path], tmp_path: Path, what: str) -> None:
    refused(written(ring), tmp_path, *RING[what])


@pytest.mark.parametrize("what", STAGED)
def test_memory_of_the_host(
    written: Callable[[Procedure], Path], tmp_path: Path, what: str
) -> None:
    refused(written(staged), tmp_path, *STAGED[what])


def refused(made: Path, tmp_path: Path, alter: Alter, says: str) -> None:
    folder = Path(shutil.copytree(made, tmp_path / "altered"))
    change(folder, PROGRAM, alter)
    assert says in problems(folder)


def test_memory_of_the_host_is_confirmed(written: Callable[[Procedure], Path]) -> None:
    assert recheck(written(staged), [smt.ask_z3]).word == "confirmed"


@pytest.mark.parametrize("shape", ["windows", "host", *reach.SHAPES])
def test_whatever_is_converted_is_admitted(shape: str) -> None:
    for seed in range(20 if shape == "host" else 6):
        match shape:
            case "windows":
                procedure = sources.procedure(windows(Random(seed)).windows)
            case "host":
                procedure = sources.procedure(host(Random(seed)))
            case _:
                procedure = reach.procedure(shape, seed)
        for policy in ("ptx", "paper"):
            check_lifetimes(procedure.amir(policy).to_json())


def test_kernels_of_the_tests_are_admitted() -> None:
    for procedure in (ring, nest, staged):
        check_lifetimes(procedure.amir().to_json())
