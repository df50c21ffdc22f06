"""A packed program on a GPU: outputs poisoned, everything between guard bands.

It needs the CUDA driver and numpy alone.
"""

from __future__ import annotations

import ctypes
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from exogpu.codegen.runtime import Kernel, LaunchError, driver, evaluate
from exogpu.codegen.runtime.driver import pointer
from exogpu.gpu_trial.run_data import At, Packed, difference

GUARD: Final = 4096
"""Bytes on either side of an array that nothing may write."""

GUARD_BYTE: Final = 0xA7
"""The byte of guard bands: as f32 about -4.6e-15, so that a program that reads it is wrong."""

ALL: Final = 0
"""As many clusters as the device holds."""

COUNTS: Final = (ALL, 1, 2, 3, 7, 132)
"""Clusters that a launch gets, where there are so many tasks."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A fault in one run."""

    sizes: Mapping[str, int]
    clusters: int
    what: str

    def as_data(self) -> dict[str, Any]:
        """In a form that JSON can hold."""
        return {"sizes": dict(self.sizes), "clusters": self.clusters, "what": self.what}


class _Guarded:
    """An array on the device, between guard bands; other libraries see it as theirs."""

    def __init__(self, array: npt.NDArray[np.generic], guard: int) -> None:
        self.array, self.guard = array, guard
        self.bytes = array.nbytes
        self.block = driver.allocate(self.bytes + 2 * guard)
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (self.block + guard, False),
            "strides": None,
            "version": 3,
        }

    def write(self) -> None:
        """The array as given, and fresh guard bands."""
        band = np.full(self.guard, GUARD_BYTE, np.uint8)
        flat = np.ascontiguousarray(self.array).reshape(-1).view(np.uint8)
        whole = np.concatenate([band, flat, band])
        driver.copy_in(self.block, whole.ctypes.data, whole.nbytes, pointer(0))
        driver.call("cuStreamSynchronize", pointer(0))

    def copy_back(self) -> tuple[npt.NDArray[np.generic], bool]:
        """Copies the array out, and returns whether the guard bands are intact."""
        end = self.guard + self.bytes
        whole = np.empty(end + self.guard, np.uint8)
        driver.copy_out(whole.ctypes.data, self.block, whole.nbytes, pointer(0))
        driver.call("cuStreamSynchronize", pointer(0))
        bands = np.concatenate([whole[: self.guard], whole[end:]])
        inside = whole[self.guard : end].copy().view(self.array.dtype)
        return inside.reshape(self.array.shape), bool((bands == GUARD_BYTE).all())


class DeviceLost(Exception):
    """The driver refused something after a launch: this process can use the device no more."""

    def __init__(self, wrong: Sequence[Wrong]) -> None:
        super().__init__(wrong[-1].what)
        self.wrong = tuple(wrong)


def run(
    packed: Packed,
    counts: Sequence[int] = COUNTS,
    before: Callable[[], None] = lambda: None,
    guard: int = GUARD,
) -> tuple[int, list[Wrong]]:
    """Runs a program at all its sizes and numbers of clusters; returns the number of runs, and the
    wrong ones.

    `before` is called before each, to dirty what it does not own; `guard` is the bytes of guard
    bands, 0 where a checker watches the ends of allocations.  A refusal before the launch is wrong
    too.  Raises DeviceLost where the kernel broke the context.
    """
    runs, found = 0, list[Wrong]()
    with driver.active(driver.current_device()), ExitStack() as stack:
        launch = _launcher(packed, stack)
        for at in packed.at:
            seen = set()
            for count in counts if packed.library is None else (ALL,):
                clusters = _clusters(packed.manifest, at.sizes, count)
                if clusters in seen:
                    continue
                seen.add(clusters)
                runs += 1
                before()
                try:
                    whats = _run_once(packed, at, launch, count, guard)
                except LaunchError as error:
                    found.append(Wrong(at.sizes, count, f"{error}"))
                    if _is_lost():
                        raise DeviceLost(found) from error
                    continue
                found += [Wrong(at.sizes, count, what) for what in whats]
    return runs, found


def _clusters(manifest: Mapping[str, Any], sizes: Mapping[str, int], count: int) -> int:
    """Returns the effective number of clusters: none are used beyond the tasks."""
    tasks = [
        math.prod(max(0, evaluate(n, sizes)) for n in nest)
        for step in manifest["steps"]
        if step["op"] == "launch"
        for nest in step["tasks"]
    ]
    most = max(tasks, default=0)
    return most if count == ALL else min(count, most)


def _is_lost() -> bool:
    try:
        driver.call("cuCtxSynchronize")
    except LaunchError:
        return True
    return False


Launch: TypeAlias = Callable[[Mapping[str, object], Mapping[str, int], int], None]


def _launcher(packed: Packed, stack: ExitStack) -> Launch:
    if packed.library is not None:
        function = stack.enter_context(_function(packed))
        return lambda arrays, sizes, _: _call_function(packed, function, arrays, sizes)
    kernel = Kernel(packed.manifest, packed.cubin)

    def launch(arrays: Mapping[str, object], sizes: Mapping[str, int], count: int) -> None:
        kernel.most_clusters = None if count == ALL else count
        kernel(stream=0, **arrays, **sizes)

    return launch


@contextmanager
def _function(packed: Packed) -> Iterator[Callable[..., int]]:
    """The C function of a program, from a file that lives as long."""
    assert packed.library is not None
    name = packed.manifest["name"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"lib{name}.so"
        path.write_bytes(packed.library)
        yield cast(Callable[..., int], ctypes.CDLL(str(path))[f"{name}_launch"])


def _call_function(
    packed: Packed,
    function: Callable[..., int],
    arrays: Mapping[str, object],
    sizes: Mapping[str, int],
) -> None:
    values: list[object] = []
    for p in packed.manifest["parameters"]:
        if p["kind"] != "data":
            values.append(ctypes.c_int64(sizes[p["name"]]))
            continue
        array = arrays[p["name"]]
        if isinstance(array, _Guarded):
            values.append(ctypes.c_void_p(array.block + array.guard))
        else:
            assert isinstance(array, np.ndarray)
            values.append(ctypes.c_void_p(array.ctypes.data))
    if status := function(*values, ctypes.c_void_p(None)):
        raise LaunchError(f"the C function returned {status}")


def _free(block: int) -> None:
    with suppress(LaunchError):  # where the context is lost, so is its memory
        driver.free(block)


def _run_once(packed: Packed, at: At, launch: Launch, count: int, guard: int) -> list[str]:
    """All that is wrong in one run."""
    parameters = {p["name"]: p for p in packed.manifest["parameters"] if p["kind"] == "data"}
    with ExitStack() as stack:
        arrays: dict[str, _Guarded | npt.NDArray[np.generic]] = {}
        for name, parameter in parameters.items():
            given = at.given[name]
            if parameter["memory"] in ("DRAM", "CudaGridConstant"):
                arrays[name] = given.copy()
                continue
            placed = arrays[name] = _Guarded(given, guard)
            stack.callback(_free, placed.block)
            placed.write()
        launch(arrays, at.sizes, count)
        driver.call("cuStreamSynchronize", pointer(0))
        wrong = []
        for name, array in arrays.items():
            found, intact = array.copy_back() if isinstance(array, _Guarded) else (array, True)
            if not intact:
                wrong.append(f"wrote beside {name}")
            written = name in at.wanted
            wanted = at.wanted[name] if written else at.given[name]
            what = difference(found, wanted, parameters[name]["dtype"], packed.tolerance)
            if what:
                wrong.append(f"{name}{'' if written else ', an input'}: {what}")
        return wrong
