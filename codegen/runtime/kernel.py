"""A compiled procedure that can be called."""

from __future__ import annotations

import ctypes
import json
import math
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias, TypeVar

from exogpu.codegen.runtime import arrays as runtime_arrays
from exogpu.codegen.runtime import driver
from exogpu.codegen.runtime import manifest as runtime_manifest
from exogpu.codegen.runtime.arrays import ITEM_SIZE, Array, array_of, describe_fault, listen
from exogpu.codegen.runtime.binding import arguments_by_name, bind, check_fits, value_of
from exogpu.codegen.runtime.device_memory import Place, enqueued, tensor_map
from exogpu.codegen.runtime.host_function import HostFunction, call_function, load_function
from exogpu.codegen.runtime.modules import (
    Loaded,
    check_arch,
    clusters_for,
    launcher,
    load,
    module_of,
)

# Calls that repeat another: with the same memory, shapes and stream, told of torch's tensors.


def key_of(
    values: Iterable[Any], names: tuple[str, ...], stream: object, most: int | None
) -> Hashable | None:
    """Returns the key of a call: two calls with one key launch the same. The last values have
    names.

    None where that is not known: for arrays that are no tensors of one GPU, or that take part in
    the computation of a gradient, and for streams other than handles.
    """
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    if torch is None or tensor is None or not (stream is None or type(stream) is int):
        return None
    parts: list[Hashable] = []
    device = None
    for value in values:
        if type(value) is int:
            parts.append(value)
            continue
        if type(value) is not tensor or not value.is_cuda or value.requires_grad:
            return None
        if device is None:
            device = value.get_device()
        if value.get_device() != device:
            return None
        parts.append((value.data_ptr(), value.dtype, value.shape, value.stride()))
    if device is None:
        return None
    chosen = _current_stream(torch, device) if stream is None else stream
    return names, stream is None, chosen, device, most, tuple(parts)


def _current_stream(torch: ModuleType, device: int) -> int:
    """The handle of torch's current stream."""
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # an eighth of the time
    return int(raw(device) if raw else torch.cuda.current_stream(device).cuda_stream)


MOST_REPEATED: Final = 256
"""Calls that are kept, to be repeated without looking at their arguments again."""

_T = TypeVar("_T")
_Items: TypeAlias = tuple[tuple[str, _T], ...]
"""A mapping that can be a key."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """A kernel with all that its launch needs."""

    loaded: Loaded
    tasks: int
    arguments: list[ctypes._CData]
    early: bool
    """It may begin before the kernel right before it has ended."""


@dataclass(frozen=True, slots=True)
class _Filled:
    """Memory with the byte that it gets."""

    pointer: int
    bytes: int
    byte: int


class Kernel:
    """A compiled procedure: its manifest, its cubin, and how to call it.

    `manifest` is the JSON that `exogpu compile` writes.
    """

    def __init__(
        self,
        manifest: Mapping[str, runtime_manifest.Json],
        cubin: bytes,
        library: Callable[[], bytes] | None = None,
    ) -> None:
        # `library` reads or makes the shared object, which alone does what the CPU shall compute.
        self._library = library
        self._function: HostFunction | None = None
        self.manifest = manifest
        self.cubin = cubin
        self.most_clusters: int | None = None
        """The clusters that a launch may have, fewer than the device holds; the rest of the tasks
        follow."""
        self._data = runtime_manifest.read_manifest(manifest)
        self._dtypes = {p.name: p.dtype for p in self._data.data}
        self._launches = tuple(
            s for s in self._data.steps if isinstance(s, runtime_manifest.Launch)
        )
        self._written = frozenset(p.name for p in self._data.data if p.written)
        self._by_value = {p.name: len(p.shape) for p in self._data.data if p.by_value}
        self._on_host = frozenset(p.name for p in self._data.data if p.on_host)
        self._loaded: dict[int, dict[str, Loaded]] = {}
        self._faults: dict[int, ctypes.Array[ctypes.c_longlong]] = {}
        # Most calls repeat another: what follows from the arrays alone is kept.
        self._sizes = lru_cache(maxsize=64)(self._bind)
        self._steps = lru_cache(maxsize=64)(self._ready)
        self._repeated: dict[Hashable, tuple[int, tuple[Callable[[], None], ...]]] = {}

    @classmethod
    def from_folder(cls, folder: Path, name: str) -> Kernel:
        """`<name>.json` and `<name>.cubin` of a folder, and `lib<name>.so` where it is there.

        Raises LaunchError if one of the first two is missing.
        """
        try:
            manifest = json.loads((folder / f"{name}.json").read_text())
            cubin = (folder / f"{name}.cubin").read_bytes()
        except OSError as error:
            what = f"{error.filename} cannot be read: {error.strerror}"
            raise runtime_manifest.LaunchError(
                what, "write it with `exogpu compile --cubin`"
            ) from None
        library = folder / f"lib{name}.so"
        return Kernel(manifest, cubin, library.read_bytes if library.exists() else None)

    def __call__(self, *arrays: object, stream: object = None, **arguments: object) -> None:
        """Enqueue the procedure on a stream.

        Arrays come by position or by name, sizes by name; sizes that are an extent of an array
        may be left out.  Arrays are those of any library with `__cuda_array_interface__` or
        `__dlpack__`, contiguous by rows.  Those of numpy are copied to the GPU and, if they are
        written, back: the call then takes as long as the copies, and waits for the result.

        Without a stream, the current one of the first array's library, which waits for those of
        the other arrays' libraries, as they wait for the result.  Raises LaunchError, before
        anything is launched, for arguments that do not fit, and where there is no GPU.  After a
        kernel has ended itself for an index from memory, the next call's error names it.
        """
        try:
            self._enqueue(arrays, stream, arguments)
        except runtime_manifest.LaunchError as error:
            if wrong := self.wrong_index:
                raise runtime_manifest.LaunchError(wrong, "give indices in that range") from error
            raise

    def _enqueue(
        self, arrays: tuple[object, ...], stream: object, arguments: dict[str, object]
    ) -> None:
        if runtime_manifest.HostCode() in self._data.steps:
            self._call_on_cpu(arrays, stream, arguments)
            return
        values = (*arrays, *arguments.values())
        key = key_of(values, tuple(arguments), stream, self.most_clusters)
        if key is not None and key in self._repeated:
            device, actions = self._repeated[key]
            with driver.active(device):
                for act in actions:
                    act()
            return
        given = arguments_by_name(self._data, arrays, arguments)
        streams = [s for a in given.arrays.values() if (s := driver.current_stream(a)) is not None]
        chosen = driver.handle(stream) if stream is not None else next(iter(streams), 0)
        others = set() if stream is not None else set(streams)
        found = {n: self._array(n, a, chosen) for n, a in given.arrays.items()}
        sizes = self._sizes(tuple(found.items()), tuple(given.sizes.items()))
        device = self._device(found)
        with driver.active(device), _on_device(found, self._written, chosen) as placed:
            ready = self._steps(device, tuple(placed.items()), sizes)
            waited = others | {a.stream for a in found.values() if a.stream is not None}
            driver.wait_for(chosen, waited)
            actions = self._actions(ready, chosen)
            for act in actions:
                act()
            for other in others - {chosen}:
                driver.wait_for(other, [chosen])
        if key is not None and waited <= {chosen}:
            if len(self._repeated) >= MOST_REPEATED:
                self._repeated.clear()
            self._repeated[key] = device, actions

    def _call_on_cpu(
        self, arrays: tuple[object, ...], stream: object, arguments: dict[str, object]
    ) -> None:
        """Calls the C function, which computes on the CPU around its launches; waits for the stream
        where it reads or writes memory of the host."""
        if self._function is None:
            self._function = load_function(self._shared_object(), self._data.name)
        given = arguments_by_name(self._data, arrays, arguments)
        streams = [s for a in given.arrays.values() if (s := driver.current_stream(a)) is not None]
        chosen = driver.handle(stream) if stream is not None else next(iter(streams), 0)
        others = set() if stream is not None else set(streams)
        found = {n: self._array(n, a, chosen) for n, a in given.arrays.items()}
        for name in self._on_host:
            if not found[name].host:
                what = f"{name} is on the GPU, and the CPU accesses it"
                raise runtime_manifest.LaunchError(what, "pass an array of numpy")
        sizes = dict(self._sizes(tuple(found.items()), tuple(given.sizes.items())))
        device = self._device(found)
        copied = {n: a for n, a in found.items() if n not in self._on_host}
        with driver.active(device), _on_device(copied, self._written, chosen) as placed:
            waited = others | {a.stream for a in found.values() if a.stream is not None}
            driver.wait_for(chosen, waited)
            try:
                call_function(self._function, self._data, {**found, **placed}, sizes, chosen)
            finally:
                if self._on_host:  # what is on the stream may still access it
                    driver.call("cuStreamSynchronize", driver.pointer(chosen))
            for other in others - {chosen}:
                driver.wait_for(other, [chosen])

    def _shared_object(self) -> bytes:
        """Reads or makes the shared object.  Raises LaunchError where there is none."""
        if self._library is None:
            name = self._data.name
            what = f"{name} does more on the CPU than to launch kernels in order"
            how = f"make lib{name}.so beside its manifest, by `exogpu compile --so`"
            raise runtime_manifest.LaunchError(what, how)
        return self._library()

    def check_contracts(self, *arrays: object, stream: object = None, **arguments: object) -> None:
        """Look at what the proof assumes of the contents of arrays, such as monotone(offsets).

        Takes the arguments of a call, and launches nothing; it copies those arrays to the CPU, on
        the stream, and waits.  Raises LaunchError that names the first elements that are wrong.
        """
        given = arguments_by_name(self._data, arrays, arguments)
        streams = [s for a in given.arrays.values() if (s := driver.current_stream(a)) is not None]
        chosen = driver.handle(stream) if stream is not None else next(iter(streams), 0)
        found = {n: self._array(n, a, chosen) for n, a in given.arrays.items()}
        self._sizes(tuple(found.items()), tuple(given.sizes.items()))
        with driver.active(self._device(found)):
            runtime_arrays.check_contracts(self._data.contracts, found, self._dtypes, chosen)

    @property
    def wrong_index(self) -> str:
        """Describes the index from memory, out of its range, for which a kernel ended itself; empty
        if there was none. Such a launch fails when its stream is waited for
        (CUDA_ERROR_LAUNCH_FAILED)."""
        found = (describe_fault(written, self._data.loads) for written in self._faults.values())
        return next(filter(None, found), "")

    def _actions(
        self, steps: tuple[_Ready | _Filled | Place, ...], stream: int
    ) -> tuple[Callable[[], None], ...]:
        """Returns functions that enqueue the steps."""
        places = [step for step in steps if isinstance(step, Place)]
        actions = (self._action(step, stream) for step in steps if not isinstance(step, Place))
        made = tuple(actions)
        return (enqueued(made, places, stream),) if places else made

    def _action(self, step: _Ready | _Filled, stream: int) -> Callable[[], None]:
        """Returns the function that enqueues a step."""
        if isinstance(step, _Ready):
            clusters = clusters_for(step.loaded, step.tasks, self.most_clusters)
            return launcher(step.loaded, clusters, step.arguments, stream, early=step.early)
        target, count = ctypes.c_uint64(step.pointer), ctypes.c_size_t(step.bytes)
        byte, where = ctypes.c_ubyte(step.byte), driver.pointer(stream)
        return partial(driver.call, "cuMemsetD8Async", target, byte, count, where)

    def _array(self, name: str, value: object, stream: int) -> Array:
        if name in self._by_value:
            return value_of(name, value, self._dtypes[name], self._by_value[name])
        return array_of(name, value, stream)

    def _bind(self, arrays: _Items[Array], given: _Items[int]) -> _Items[int]:
        return tuple(bind(self._data, dict(arrays), dict(given)).items())

    def _device(self, arrays: Mapping[str, Array]) -> int:
        """The one device that has all arrays, and runs the cubin.  Raises LaunchError."""
        known = driver.gpus()
        places = {
            n: driver.device_of(n, a.pointer) for n, a in arrays.items() if not a.host and a.pointer
        }
        if len(set(places.values())) > 1:
            where = ", ".join(f"{n} on GPU {d}" for n, d in places.items())
            raise runtime_manifest.LaunchError(
                f"the arrays are on several devices: {where}", "move them to one"
            )
        device = next(iter(places.values())) if places else driver.current_device()
        check_arch(self._data.arch, known[device])
        return device

    def _ready(
        self, device: int, arrays: _Items[Array], sizes: _Items[int]
    ) -> tuple[_Ready | _Filled | Place, ...]:
        """Prepares the steps to enqueue: kernels, memory to fill, and the memory of their own."""
        known = dict(sizes)
        own = {
            s.name: _place(s, device, known)
            for s in self._data.steps
            if isinstance(s, runtime_manifest.Workspace)
        }
        steps: list[_Ready | _Filled] = []
        launched = False  # right before this step, by a kernel that had tasks
        for one in self._data.steps:
            step = self._step(one, device, dict(arrays), own, known, after_kernel=launched)
            launched = isinstance(step, _Ready)
            steps += [] if step is None else [step]
        return (*own.values(), *steps)

    def _step(
        self,
        step: runtime_manifest.Step,
        device: int,
        arrays: Mapping[str, Array],
        own: Mapping[str, Place],
        sizes: Mapping[str, int],
        *,
        after_kernel: bool,
    ) -> _Ready | _Filled | None:
        """A kernel, or memory to fill; None where there is nothing to do."""
        if isinstance(step, runtime_manifest.Fill):
            target, item = arrays[step.target], ITEM_SIZE[self._dtypes[step.target]]
            first, count = (
                item * runtime_manifest.evaluate(step.offset, sizes),
                item * runtime_manifest.evaluate(step.count, sizes),
            )
            if first < 0 or first + count > target.bytes:  # bounds analysis refuses it
                what = f"a memset leaves {step.target}: bytes {first} to {first + count}"
                raise runtime_manifest.LaunchError(what, "compile the procedure again")
            return _Filled(target.pointer + first, count, step.byte) if count > 0 else None
        if isinstance(step, runtime_manifest.HostCode | runtime_manifest.Workspace):
            return None
        counts = [
            math.prod(max(0, runtime_manifest.evaluate(n, sizes)) for n in nest)
            for nest in step.tasks
        ]
        tasks = max(counts, default=0)
        if tasks == 0:
            return None
        check_fits(step.fits, sizes)
        if tasks >= 1 << 31:
            what = f"{tasks} tasks are more than a launch can number"
            raise runtime_manifest.LaunchError(what, "divide the work into several calls")
        if device not in self._loaded:
            module = module_of(self.cubin)
            self._loaded[device] = load(module, self._launches, device)
            if self._data.loads:
                self._faults[device] = listen(module)
        arguments = [
            own[a].address if isinstance(a, str) and a in own else self._argument(a, arrays, sizes)
            for a in step.arguments
        ]
        early = step.dependent and after_kernel
        return _Ready(self._loaded[device][step.kernel], tasks, arguments, early)

    def _argument(
        self,
        argument: str | runtime_manifest.MapOf,
        arrays: Mapping[str, Array],
        sizes: Mapping[str, int],
    ) -> ctypes._CData:
        if isinstance(argument, runtime_manifest.MapOf):
            name = argument.tensor
            return tensor_map(argument, arrays[name], self._dtypes[name])
        if argument in arrays:
            array = arrays[argument]
            if array.value is not None:
                return ctypes.create_string_buffer(array.value, len(array.value))
            return ctypes.c_void_p(array.pointer)
        return ctypes.c_int(sizes[argument])

    def __repr__(self) -> str:
        return f"<kernel {self._data.name} for {self._data.arch}>"


def _place(step: runtime_manifest.Workspace, device: int, sizes: Mapping[str, int]) -> Place:
    count = (
        math.prod(runtime_manifest.evaluate(n, sizes) for n in step.shape) * ITEM_SIZE[step.dtype]
    )
    return Place(ctypes.c_void_p(), count, device, step.zeroed)


@contextmanager
def _on_device(
    arrays: Mapping[str, Array], written: frozenset[str], stream: int
) -> Iterator[dict[str, Array]]:
    """The arrays with those of numpy copied to the device; on the way out, the results come back,
    and are waited for."""
    placed = dict(arrays)
    copies: dict[str, int] = {}
    try:
        for name, array in arrays.items():
            if array.host and array.value is None:
                copies[name] = driver.allocate(array.bytes)
                driver.copy_in(copies[name], array.pointer, array.bytes, driver.pointer(stream))
                placed[name] = replace(array, pointer=copies[name])
        yield placed
        for name in copies.keys() & written:
            driver.copy_out(
                arrays[name].pointer, copies[name], arrays[name].bytes, driver.pointer(stream)
            )
        if copies:
            driver.call("cuStreamSynchronize", driver.pointer(stream))
    except BaseException:
        if copies:  # what was enqueued may still read or write numpy's memory
            with suppress(runtime_manifest.LaunchError):
                driver.call("cuStreamSynchronize", driver.pointer(stream))
        raise
    finally:
        for address in copies.values():
            driver.free(address)
