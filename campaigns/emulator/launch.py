"""Calls of emitted procedures on the emulator, on numpy arrays."""

from __future__ import annotations

import ctypes
import hashlib
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from campaigns.emulator.orders import Order
from campaigns.emulator.translate import HERE, UnknownError, translated
from exogpu.codegen.runtime.arrays import ITEM_SIZE
from exogpu.codegen.runtime.manifest import Json, evaluate

_KINDS: Final = {"f32": 0, "f64": 1, "i32": 2, "ui32": 2, "i64": 3, "ui64": 3, "f16": 4, "bf16": 5}
_RANK: Final = 5
_BEFORE: Final = ctypes.CFUNCTYPE(None)

_BEFORE_FIRST: Final = """
extern "C" void run_before(void (*run)()) { emulated::before = run; }
"""

_CALL = """
extern "C" const char* call_{name}(
    const long long* numbers, void** arrays, TensorMap* maps, int clusters, unsigned seed,
    double eager, double fickle)
{{
    static std::string failure;
    failure.clear();
    const int machines = {together} ? 1 : clusters;
    for (int first = 0; first < machines && failure.empty(); ++first) {{
        machine::Machine one;
        one.block = {block};
        one.cluster = {together} ? clusters : {cluster};
        one.shared_bytes = {shared};
        one.first = first;
        one.clusters = machines;
        one.random.seed(seed + 977 * first);
        one.eager = eager;
        one.fickle = fickle;
        one.body = [=] {{ {kernel}({arguments}); }};
        one.ended = [&one](int) {{}};
        machine::now = &one;
        emulated::gathered.clear();
        emulated::in_flight.clear();
        emulated::products.clear();
        emulated::counted.clear();
        one.run();
        failure = one.failure;
    }}
    machine::now = nullptr;
    return failure.empty() ? nullptr : failure.c_str();
}}
"""


class TensorMap(ctypes.Structure):
    """As in `cuda.hpp`: the innermost dimension first."""

    _fields_ = (
        ("memory", ctypes.c_void_p),
        ("rank", ctypes.c_int),
        ("item", ctypes.c_int),
        ("swizzle", ctypes.c_int),
        ("kind", ctypes.c_int),
        ("tf32", ctypes.c_int),
        ("shape", ctypes.c_longlong * _RANK),
        ("strides", ctypes.c_longlong * _RANK),
        ("box", ctypes.c_int * _RANK),
    )


class EmulatedError(Exception):
    """A fault in a run: a hang, an access of freed memory, an impossible arrival."""


class Emulated:
    """An emitted procedure that runs on the emulator."""

    def __init__(self, source: str, manifest: Mapping[str, Any], folder: Path) -> None:
        self.manifest = manifest
        self.steps: Sequence[Mapping[str, Any]] = manifest["steps"]
        text = translated(source) + _BEFORE_FIRST
        for step in self.steps:
            match step["op"]:
                case "launch":
                    text += _entry(text, step)
                case "memset" | "allocate":
                    pass
                case other:
                    raise UnknownError(f"the step {other}")
        self._library = _compiled(text, folder)

    def __call__(
        self,
        arrays: Mapping[str, np.ndarray[Any, Any]],
        sizes: Mapping[str, int],
        order: Order,
    ) -> None:
        """Runs the steps on the arrays, which change.  Raises EmulatedError."""
        arrays = dict(arrays)
        for step in self.steps:
            if step["op"] == "allocate":
                arrays[step["name"]] = _garbage(step, sizes)
        self._run([s for s in self.steps if s["op"] != "allocate"], arrays, sizes, order)

    def _run(
        self,
        steps: Sequence[Mapping[str, Any]],
        arrays: Mapping[str, np.ndarray[Any, Any]],
        sizes: Mapping[str, int],
        order: Order,
    ) -> None:
        """The steps one after the other, or a dependent launch before those that it waits for."""
        if not steps:
            return
        *others, last = steps
        if order.ahead and last.get("dependent") and _tasks(last, sizes):
            self._ahead(others, last, arrays, sizes, order)
            return
        self._run(others, arrays, sizes, order)
        if last["op"] == "memset":
            flat = arrays[last["target"]].reshape(-1)
            first, count = (int(evaluate(last[n], sizes)) for n in ("offset", "count"))  # type: ignore[call-overload]
            flat[first : first + count].view(np.uint8)[...] = last["byte"]
        else:
            self._launch(last, arrays, sizes, order)

    def _ahead(
        self,
        others: Sequence[Mapping[str, Any]],
        last: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray[Any, Any]],
        sizes: Mapping[str, int],
        order: Order,
    ) -> None:
        """The last step begins, and what it waits for then runs: the launch before it and, where
        that is dependent too, those before it, back to one that is not, which begins when all
        others are over."""
        base = max(at for at, step in enumerate(others) if not step.get("dependent"))
        self._run(others[:base], arrays, sizes, order)
        failures: list[EmulatedError | None] = []

        def run() -> None:
            failures.append(None)
            try:
                self._run(others[base:], arrays, sizes, order)
            except EmulatedError as error:
                failures.append(error)

        kept = _BEFORE(run)
        self._library.run_before(kept)
        try:
            self._launch(last, arrays, sizes, order)
        finally:
            self._library.run_before(None)  # all emulated kernels of a process share the place
        if not failures:
            raise EmulatedError("a dependent launch ends and has not waited")
        for failure in filter(None, failures):
            raise failure

    def _launch(
        self,
        step: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray[Any, Any]],
        sizes: Mapping[str, int],
        order: Order,
    ) -> None:
        tasks = _tasks(step, sizes)
        numbers, pointers, maps = [], [], []
        for argument in step["arguments"]:
            if isinstance(argument, Mapping):
                maps.append(_map(argument, arrays[argument["tensor"]], self._dtype(argument)))
            elif argument in arrays:
                pointers.append(arrays[argument].ctypes.data)
            else:
                numbers.append(sizes[argument])
        function = self._library[f"call_{step['kernel']}"]
        function.restype = ctypes.c_char_p
        failure = function(
            (ctypes.c_longlong * max(1, len(numbers)))(*numbers),
            (ctypes.c_void_p * max(1, len(pointers)))(*pointers),
            (TensorMap * max(1, len(maps)))(*maps),
            ctypes.c_int(min(tasks, order.clusters or tasks)),
            ctypes.c_uint(order.seed),
            ctypes.c_double(order.eager),
            ctypes.c_double(order.fickle),
        )
        if failure is not None:
            raise EmulatedError(failure.decode())

    def _dtype(self, argument: Mapping[str, Any]) -> str:
        found = (p for p in self.manifest["parameters"] if p["name"] == argument["tensor"])
        return str(next(found)["dtype"])


def _garbage(step: Mapping[str, Any], sizes: Mapping[str, int]) -> np.ndarray[Any, Any]:
    """Memory of the procedure's own: NaN, where there is one, until it is written; or 0."""
    shape = [int(evaluate(n, sizes)) for n in step["shape"]]
    byte = 0 if step.get("zeroed", False) else 255
    return np.full((int(np.prod(shape)), ITEM_SIZE[step["dtype"]]), byte, np.uint8)


def _tasks(step: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
    return sum(_product(nest, sizes) for nest in step["tasks"])


def _product(counts: Sequence[Json], sizes: Mapping[str, int]) -> int:
    total = 1
    for count in counts:
        total *= max(0, int(evaluate(count, sizes)))  # type: ignore[call-overload]
    return total


def _map(argument: Mapping[str, Any], array: np.ndarray[Any, Any], dtype: str) -> TensorMap:
    made = TensorMap(
        memory=array.ctypes.data,
        rank=array.ndim,
        item=array.itemsize,
        swizzle=argument["swizzle"],
        kind=_KINDS.get(dtype, -1),
        tf32=argument.get("tf32", False),
    )
    for d in range(array.ndim):
        made.shape[d] = array.shape[-1 - d]
        made.strides[d] = array.strides[-1 - d]
        made.box[d] = argument["box"][-1 - d]
    return made


def _entry(text: str, step: Mapping[str, Any]) -> str:
    found = re.search(rf"\n{step['kernel']}\((.*?)\)\n{{", text)
    assert found is not None
    numbers, pointers, maps = 0, 0, 0
    arguments = []
    for parameter in filter(None, re.split(r", (?![^<]*>)", found[1])):
        if "TensorMap" in parameter:
            arguments.append(f"maps[{maps}]")
            maps += 1
        elif "GridConstant" in parameter:
            kind = parameter.replace("__grid_constant__ ", "").rpartition(" ")[0]
            arguments.append(f"*static_cast<{kind}*>(arrays[{pointers}])")
            pointers += 1
        elif "*" in parameter:
            kind = parameter.replace("__restrict__", "").rpartition(" ")[0]
            arguments.append(f"static_cast<{kind}>(arrays[{pointers}])")
            pointers += 1
        else:
            arguments.append(f"static_cast<int>(numbers[{numbers}])")
            numbers += 1
    return _CALL.format(
        name=step["kernel"],
        kernel=step["kernel"],
        block=step["block"],
        cluster=step["cluster"],
        shared=step["shared_bytes"],
        together=str(step.get("together", False)).lower(),
        arguments=", ".join(arguments),
    )


_COMPILER: Final = ("g++", "-std=c++20", "-O1", "-fPIC", "-w", "-fno-strict-aliasing")


def _compiled(text: str, folder: Path) -> ctypes.CDLL:
    header = folder / "prelude.hpp.gch"
    if not header.exists():
        _run([*_COMPILER, "-x", "c++-header", "-o", str(header), str(HERE / "prelude.hpp")])
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    library = folder / f"{digest}.so"
    if not library.exists():
        file = folder / f"{digest}.cpp"
        file.write_text(text)
        _run([*_COMPILER, "-shared", f"-I{HERE}", "-o", str(library), str(file)])
    return ctypes.CDLL(str(library))


def _run(command: Sequence[str]) -> None:
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise UnknownError(f"the C++ is refused:\n{made.stderr[:4000]}")
