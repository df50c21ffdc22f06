"""A compiled procedure that can be called."""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from exogpu.codegen.runtime.arrays import ITEM_SIZE, Array, array_of
from exogpu.codegen.runtime.binding import bind, check_fits, named
from exogpu.codegen.runtime.contracts import check_contracts
from exogpu.codegen.runtime.driver import (
    active,
    allocate,
    call,
    copy_in,
    copy_out,
    current_device,
    device_of,
    free,
    gpus,
)
from exogpu.codegen.runtime.errors import LaunchError
from exogpu.codegen.runtime.expressions import Json, evaluate
from exogpu.codegen.runtime.faults import listen, told
from exogpu.codegen.runtime.manifest import (
    Fill,
    HostCode,
    Launch,
    MapOf,
    Step,
    Workspace,
    read_manifest,
)
from exogpu.codegen.runtime.modules import (
    Loaded,
    check_arch,
    clusters_for,
    launcher,
    load,
    module_of,
)
from exogpu.codegen.runtime.repeated import key_of
from exogpu.codegen.runtime.streams import current_stream, handle, pointer, wait_for
from exogpu.codegen.runtime.tensormaps import tensor_map
from exogpu.codegen.runtime.values import value_of
from exogpu.codegen.runtime.workspaces import Place, enqueued

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
    """Whether it may begin before the kernel right before it has ended."""


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

    def __init__(self, manifest: Mapping[str, Json], cubin: bytes) -> None:
        self.manifest = manifest
        self.cubin = cubin
        self.most_clusters: int | None = None
        """That a launch may have, fewer than the device holds; the rest of the tasks follow."""
        self._data = read_manifest(manifest)
        self._dtypes = {p.name: p.dtype for p in self._data.data}
        self._launches = tuple(s for s in self._data.steps if isinstance(s, Launch))
        self._written = frozenset(p.name for p in self._data.data if p.written)
        self._by_value = frozenset(p.name for p in self._data.data if p.by_value)
        self._loaded: dict[int, dict[str, Loaded]] = {}
        self._faults: dict[int, ctypes.Array[ctypes.c_longlong]] = {}
        # Most calls repeat another: what follows from the arrays alone is kept.
        self._sizes = lru_cache(maxsize=64)(self._bind)
        self._steps = lru_cache(maxsize=64)(self._ready)
        self._repeated: dict[Hashable, tuple[int, tuple[Callable[[], None], ...]]] = {}

    @classmethod
    def from_folder(cls, folder: Path, name: str) -> Kernel:
        """`<name>.json` and `<name>.cubin` of a folder.  Raises LaunchError if one is missing."""
        try:
            manifest = json.loads((folder / f"{name}.json").read_text())
            cubin = (folder / f"{name}.cubin").read_bytes()
        except OSError as error:
            what = f"{error.filename} cannot be read: {error.strerror}"
            raise LaunchError(what, "write it with `exogpu compile --cubin`") from None
        return Kernel(manifest, cubin)

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
        except LaunchError as error:
            if wrong := self.wrong_index:
                raise LaunchError(wrong, "give indices in that range") from error
            raise

    def _enqueue(
        self, arrays: tuple[object, ...], stream: object, arguments: dict[str, object]
    ) -> None:
        if HostCode() in self._data.steps:
            name = self._data.name
            what = f"{name} does more on the CPU than to launch kernels in order"
            how = f"make lib{name}.so by `exogpu compile --so`, and call its function {name}_launch"
            raise LaunchError(what, how)
        values = (*arrays, *arguments.values())
        key = key_of(values, tuple(arguments), stream, self.most_clusters)
        if key is not None and key in self._repeated:
            device, actions = self._repeated[key]
            with active(device):
                for act in actions:
                    act()
            return
        given = named(self._data, arrays, arguments)
        streams = [s for a in given.arrays.values() if (s := current_stream(a)) is not None]
        chosen = handle(stream) if stream is not None else next(iter(streams), 0)
        others = set() if stream is not None else set(streams)
        found = {n: self._array(n, a, chosen) for n, a in given.arrays.items()}
        sizes = self._sizes(tuple(found.items()), tuple(given.sizes.items()))
        device = self._device(found)
        with active(device), _on_device(found, self._written, chosen) as placed:
            ready = self._steps(device, tuple(placed.items()), sizes)
            waited = others | {a.stream for a in found.values() if a.stream is not None}
            wait_for(chosen, waited)
            actions = self._actions(ready, chosen)
            for act in actions:
                act()
            for other in others - {chosen}:
                wait_for(other, [chosen])
        if key is not None and waited <= {chosen}:
            if len(self._repeated) >= MOST_REPEATED:
                self._repeated.clear()
            self._repeated[key] = device, actions

    def check_contracts(self, *arrays: object, stream: object = None, **arguments: object) -> None:
        """Look at what the proof assumes of the contents of arrays, such as monotone(offsets).

        Takes the arguments of a call, and launches nothing; it copies those arrays to the CPU, on
        the stream, and waits.  Raises LaunchError that names the first elements that are wrong.
        """
        given = named(self._data, arrays, arguments)
        streams = [s for a in given.arrays.values() if (s := current_stream(a)) is not None]
        chosen = handle(stream) if stream is not None else next(iter(streams), 0)
        found = {n: self._array(n, a, chosen) for n, a in given.arrays.items()}
        self._sizes(tuple(found.items()), tuple(given.sizes.items()))
        with active(self._device(found)):
            check_contracts(self._data.contracts, found, self._dtypes, chosen)

    @property
    def wrong_index(self) -> str:
        """Describes the index from memory, out of its range, for which a kernel ended itself; empty
        if there was none. Such a launch fails when its stream is waited for
        (CUDA_ERROR_LAUNCH_FAILED)."""
        found = (told(written, self._data.loads) for written in self._faults.values())
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
        byte, where = ctypes.c_ubyte(step.byte), pointer(stream)
        return partial(call, "cuMemsetD8Async", target, byte, count, where)

    def _array(self, name: str, value: object, stream: int) -> Array:
        if name in self._by_value:
            return value_of(name, value, self._dtypes[name])
        return array_of(name, value, stream)

    def _bind(self, arrays: _Items[Array], given: _Items[int]) -> _Items[int]:
        return tuple(bind(self._data, dict(arrays), dict(given)).items())

    def _device(self, arrays: Mapping[str, Array]) -> int:
        """The one device that has all arrays, and runs the cubin.  Raises LaunchError."""
        known = gpus()
        places = {n: device_of(n, a.pointer) for n, a in arrays.items() if not a.host and a.pointer}
        if len(set(places.values())) > 1:
            where = ", ".join(f"{n} on GPU {d}" for n, d in places.items())
            raise LaunchError(f"the arrays are on several devices: {where}", "move them to one")
        device = next(iter(places.values())) if places else current_device()
        check_arch(self._data.arch, known[device])
        return device

    def _ready(
        self, device: int, arrays: _Items[Array], sizes: _Items[int]
    ) -> tuple[_Ready | _Filled | Place, ...]:
        """Prepares the steps to enqueue: kernels, memory to fill, and the memory of their own."""
        known = dict(sizes)
        own = {
            s.name: _place(s, device, known) for s in self._data.steps if isinstance(s, Workspace)
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
        step: Step,
        device: int,
        arrays: Mapping[str, Array],
        own: Mapping[str, Place],
        sizes: Mapping[str, int],
        *,
        after_kernel: bool,
    ) -> _Ready | _Filled | None:
        """A kernel, or memory to fill; None where there is nothing to do."""
        if isinstance(step, Fill):
            target, item = arrays[step.target], ITEM_SIZE[self._dtypes[step.target]]
            first, count = item * evaluate(step.offset, sizes), item * evaluate(step.count, sizes)
            if first < 0 or first + count > target.bytes:  # bounds analysis refuses it
                what = f"a memset leaves {step.target}: bytes {first} to {first + count}"
                raise LaunchError(what, "compile the procedure again")
            return _Filled(target.pointer + first, count, step.byte) if count > 0 else None
        if isinstance(step, HostCode | Workspace):
            return None
        counts = [math.prod(max(0, evaluate(n, sizes)) for n in nest) for nest in step.tasks]
        tasks = max(counts, default=0)
        if tasks == 0:
            return None
        check_fits(step.fits, sizes)
        if tasks >= 1 << 31:
            what = f"{tasks} tasks are more than a launch can number"
            raise LaunchError(what, "divide the work into several calls")
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
        self, argument: str | MapOf, arrays: Mapping[str, Array], sizes: Mapping[str, int]
    ) -> ctypes._CData:
        if isinstance(argument, MapOf):
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


def _place(step: Workspace, device: int, sizes: Mapping[str, int]) -> Place:
    count = math.prod(evaluate(n, sizes) for n in step.shape) * ITEM_SIZE[step.dtype]
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
                copies[name] = allocate(array.bytes)
                copy_in(copies[name], array.pointer, array.bytes, pointer(stream))
                placed[name] = replace(array, pointer=copies[name])
        yield placed
        for name in copies.keys() & written:
            copy_out(arrays[name].pointer, copies[name], arrays[name].bytes, pointer(stream))
        if copies:
            call("cuStreamSynchronize", pointer(stream))
    except BaseException:
        if copies:  # what was enqueued may still read or write numpy's memory
            with suppress(LaunchError):
                call("cuStreamSynchronize", pointer(stream))
        raise
    finally:
        for address in copies.values():
            free(address)
