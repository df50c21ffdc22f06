"""Cases judged by worker processes under a watchdog: a death or a hang costs one worker.

A case is a text; a judge is a function of a module, which every worker imports for itself.
"""

from __future__ import annotations

import multiprocessing
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeAlias

from exogpu.api import Procedure
from exogpu.codegen.compiled_kernel import compile_emitted
from exogpu.codegen.runtime import driver
from exogpu.codegen.runtime.manifest import HostCode, read_manifest
from exogpu.gpu_trial import run_on_gpu
from exogpu.gpu_trial.run_data import Packed, at_sizes, dirtying, read_packed

Result: TypeAlias = Mapping[str, Any]
"""The result of one case, in a form that JSON can hold."""

Judge: TypeAlias = Callable[[str], Result]

TRIES: Final = 2
"""Workers that may die over one case before it counts as one that kills its worker."""


class Spent(Exception):
    """A judge raises it when its process can do no more: a GPU's context is lost, say."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        self.result = result


@dataclass(slots=True, eq=False)
class _Worker:
    """A process, the case that it has, and when that must be done."""

    process: BaseProcess
    pipe: Connection
    case: str | None = None
    until: float | None = None
    ready: bool = False
    """The worker has imported its modules: the time for a case begins then."""


def on_this_machine(
    jobs: int, cases: Sequence[str], judge: Judge, seconds: float | None = None
) -> Iterator[tuple[str, Result]]:
    """Results as they come, from worker processes; one that dies is replaced, and one that takes
    more than `seconds` over a case is killed.

    A case whose workers died has the result `{"died": why}`, one that took too long
    `{"hang": seconds}`.
    """
    left, deaths = list(reversed(cases)), dict.fromkeys(cases, 0)
    workers: list[_Worker] = []
    try:
        while busy := _give_out(workers, left, jobs, judge, seconds):
            for worker in _ready(busy):
                case = worker.case
                assert case is not None
                if worker.until is not None and not worker.pipe.poll():
                    worker.process.kill()
                    _dismiss(workers, worker)
                    yield case, {"hang": seconds}
                    continue
                try:
                    answer = worker.pipe.recv()
                except (EOFError, OSError):
                    _dismiss(workers, worker)
                    deaths[case] += 1
                    if deaths[case] < TRIES:
                        left.append(case)
                    else:
                        yield case, {"died": f"exit status {worker.process.exitcode}"}
                    continue
                if answer is None:
                    worker.ready = True
                    _begin(worker, seconds)
                    continue
                worker.case = None
                result, spent = answer
                if spent:
                    _dismiss(workers, worker)
                yield case, result
    finally:
        for worker in workers:
            worker.process.kill()


def _ready(busy: Sequence[_Worker]) -> list[_Worker]:
    """The workers that have something to say, or whose time is up; of these there is one."""
    ends = [worker.until for worker in busy if worker.until is not None]
    timeout = max(0.0, min(ends) - monotonic()) if ends else None
    heard = wait([worker.pipe for worker in busy], timeout)
    now = monotonic()
    return [
        worker
        for worker in busy
        if worker.pipe in heard or (worker.until is not None and worker.until <= now)
    ]


def _give_out(
    workers: list[_Worker], left: list[str], jobs: int, judge: Judge, seconds: float | None
) -> list[_Worker]:
    """Gives cases to idle workers, and to new ones as far as there may be more."""
    idle = [worker for worker in workers if worker.case is None]
    while left and (idle or len(workers) < jobs):
        worker = idle.pop() if idle else _start(judge)
        if worker not in workers:
            workers.append(worker)
        try:
            worker.pipe.send(left[-1])
        except OSError:  # it died while it had nothing to do
            _dismiss(workers, worker)
            continue
        worker.case = left.pop()
        _begin(worker, seconds)
    return [worker for worker in workers if worker.case is not None]


def _begin(worker: _Worker, seconds: float | None) -> None:
    worker.until = None
    if worker.ready and seconds is not None:
        worker.until = monotonic() + seconds


def _dismiss(workers: list[_Worker], worker: _Worker) -> None:
    workers.remove(worker)
    worker.process.join()


def _start(judge: Judge) -> _Worker:
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, judge), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, mine)


def _serve(pipe: Connection, judge: Judge) -> None:
    pipe.send(None)  # ready
    while True:
        try:
            case = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((judge(case), False))
        except Spent as spent:
            pipe.send((spent.result, True))
            return


# Judges for worker processes: packed programs on a GPU, by the driver and numpy alone.

_dirty: dict[Path, Callable[[], None]] = {}
"""The modules of this process, by file: a module is loaded once."""


def run_one(case: str) -> Mapping[str, Any]:
    """A packed program, `FILE`, at all its sizes and numbers of clusters."""
    return _judge(Path(case), run_on_gpu.COUNTS, run_on_gpu.GUARD)


def run_quickly(case: str) -> Mapping[str, Any]:
    """At few clusters, without guard bands: under a checker that is slow."""
    return _judge(Path(case), (run_on_gpu.ALL, 2), 0)


def _judge(file: Path, counts: tuple[int, ...], guard: int) -> Mapping[str, Any]:
    packed = read_packed(file)
    try:
        runs, wrong = run_on_gpu.run(
            packed, counts, _dirty_registers(file.parent / "dirty.cubin"), guard
        )
    except run_on_gpu.DeviceLost as lost:
        found = [one.as_data() for one in lost.wrong]
        raise Spent({"runs": 0, "wrong": found, "lost": True}) from None
    name = driver.gpus()[driver.current_device()].name
    return {"runs": runs, "wrong": [one.as_data() for one in wrong], "device": name}


def _dirty_registers(cubin: Path) -> Callable[[], None]:
    if not cubin.exists():
        return lambda: None
    if cubin not in _dirty:
        _dirty[cubin] = dirtying(cubin.read_bytes())
    return _dirty[cubin]


# From a procedure to a packed program: checked, compiled, with its values.


def pack(
    procedure: Procedure,
    sizes: Sequence[Mapping[str, int]],
    source: str,
    *,
    arch: str = "sm_90a",
    tolerance: float = 0.0,
    fractions: bool = False,
    arrive_all: bool = False,
    timeout: float | None = None,
) -> Packed:
    """A procedure that is proved for all sizes, ready to be run at some.

    Its data are whole numbers; with `fractions`, at the last sizes, they are not.

    Raises RefusedError where it is not proved, ExoGpuError where it has no lowering, CompileError
    where the compiler refuses what was emitted.
    """
    emitted, manifest = procedure.emit(arch, timeout=timeout, arrive_all=arrive_all)
    kernel = compile_emitted(emitted, manifest)
    on_the_cpu = HostCode() in read_manifest(kernel.manifest).steps
    seed = zlib.crc32(procedure.name.encode())
    return Packed(
        procedure.name,
        source,
        kernel.manifest,
        kernel.cubin,
        kernel.shared_object if on_the_cpu else None,
        tolerance,
        tuple(
            at_sizes(
                procedure,
                at,
                seed + number,
                fractions=fractions and number == len(sizes) - 1,
            )
            for number, at in enumerate(sizes)
        ),
    )
