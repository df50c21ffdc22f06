"""A compiled procedure that can be called."""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from exogpu.codegen.runtime import arrays as runtime_arrays
from exogpu.codegen.runtime import driver
from exogpu.codegen.runtime import manifest as runtime_manifest
from exogpu.codegen.runtime.arrays import ITEM_SIZE, Array, array_of, describe_fault, listen
from exogpu.codegen.runtime.binding import arguments_by_name, bind, check_fits, value_of
from exogpu.codegen.runtime.device_memory import Place, copied_map, enqueued, on_device, tensor_map
from exogpu.codegen.runtime.host_function import HostFunction, call_function, load_function
from exogpu.codegen.runtime.modules import (
    Loaded,
    check_arch,
    clusters_for,
    launcher,
    load,
    module_of,
)
from exogpu.codegen.runtime.plans import (
    MOST_PLANS,
    Addresses,
    Plan,
    Span,
    current_record,
    shape_key,
)

_T = TypeVar("_T")
_Items: TypeAlias = tuple[tuple[str, _T], ...]
"""A mapping that can be a key."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """A kernel with all that its launch needs."""

    loaded: Loaded
    tasks: int
    arguments: list[ctypes._CData]
    sources: tuple[str | runtime_manifest.MapOf, ...]
    """The parameter or tensor map that each argument is."""
    early: bool
    """It may begin before the kernel right before it has ended."""


@dataclass(frozen=True, slots=True)
class _Filled:
    """Memory with the byte that it gets."""

    target: str
    offset: int
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
        self._on_cpu = runtime_manifest.HostCode() in self._data.steps
        # Most calls repeat another: what follows from the arrays alone is kept.
        self._sizes = lru_cache(maxsize=64)(self._bind)
        self._steps = lru_cache(maxsize=64)(self._ready)
        self._plans: dict[Hashable, Plan] = {}

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
            self._call(arrays, stream, arguments)
        except runtime_manifest.LaunchError as error:
            self._explain(error)
            raise

    def enqueue(self, plan: Plan, addresses: tuple[int, ...]) -> None:
        """Enqueues a plan of this kernel on tensors at addresses that fit.  Raises LaunchError."""
        try:
            plan.enqueue(addresses)
        except runtime_manifest.LaunchError as error:
            self._explain(error)
            raise

    def _explain(self, error: runtime_manifest.LaunchError) -> None:
        """Raises LaunchError that names the index for which an earlier launch ended itself."""
        if wrong := self.wrong_index:
            raise runtime_manifest.LaunchError(wrong, "give indices in that range") from error

    def _call(
        self, arrays: tuple[object, ...], stream: object, arguments: dict[str, object]
    ) -> None:
        if self._on_cpu:
            self._call_on_cpu(arrays, stream, arguments)
            return
        values = (*arrays, *arguments.values())
        record = current_record()
        key, tensors = shape_key(values, tuple(arguments), stream, self.most_clusters) or (None, [])
        addresses = tuple([tensor.data_ptr() for tensor in tensors])
        plan = self._plans.get(key)
        if plan is None or not plan.admits(addresses):
            plan = self._look(arrays, stream, arguments, key is not None and len(tensors))
            if plan is not None:
                if len(self._plans) >= MOST_PLANS:
                    self._plans.clear()
                self._plans[key] = plan
        else:
            plan.enqueue(addresses)
        if record is not None and plan is not None:
            record.launches.append((self.enqueue, plan, addresses))
        elif record is not None:
            record.repeatable = False

    def _look(
        self, arrays: tuple[object, ...], stream: object, arguments: dict[str, object], tensors: int
    ) -> Plan | None:
        """Looks at the arguments, and enqueues the steps.  Returns a plan for further calls if all
        arrays are tensors, so many, of one library with one stream."""
        given = arguments_by_name(self._data, arrays, arguments)
        streams = [s for a in given.arrays.values() if (s := driver.current_stream(a)) is not None]
        chosen = driver.handle(stream) if stream is not None else next(iter(streams), 0)
        others = set() if stream is not None else set(streams)
        found = {n: self._array(n, a, chosen) for n, a in given.arrays.items()}
        sizes = self._sizes(tuple(found.items()), tuple(given.sizes.items()))
        device = self._device(found)
        waited = others | {a.stream for a in found.values() if a.stream is not None}
        with driver.active(device), on_device(found, self._written, chosen) as placed:
            ready = self._steps(device, tuple(placed.items()), sizes)
            driver.wait_for(chosen, waited)
            for act in self._actions(ready, chosen):
                act()
            for other in others - {chosen}:
                driver.wait_for(other, [chosen])
            if not tensors or not waited <= {chosen}:
                return None
            names = [p.name for p in self._data.data][: len(arrays)] + list(arguments)
            order = [name for name in names if name in found and found[name].value is None]
            if len(order) != tensors:  # a tensor whose value is taken
                return None
            return self._plan(device, found, sizes, chosen, order)

    def _plan(
        self,
        device: int,
        arrays: Mapping[str, Array],
        sizes: _Items[int],
        stream: int,
        order: Sequence[str],
    ) -> Plan:
        """Makes the plan of a call whose tensors come in that order; its arguments are its own."""
        places, steps = Addresses(), list(self._ready(device, tuple(arrays.items()), sizes))
        targets: dict[int, ctypes.c_uint64] = {}
        for at, step in enumerate(steps):
            if isinstance(step, _Filled):
                targets[at] = ctypes.c_uint64(step.pointer)
                places.pointers.append((targets[at], order.index(step.target), step.offset))
            elif isinstance(step, _Ready):
                own = list(step.arguments)
                for where, source in enumerate(step.sources):
                    if isinstance(source, runtime_manifest.MapOf):
                        own[where] = descriptor = copied_map(step.arguments[where])
                        places.maps.append((descriptor, order.index(source.tensor)))
                    elif source in order:
                        places.pointers.append((own[where], order.index(source), 0))
                steps[at] = replace(step, arguments=own)
        spans = [Span(at, arrays[n].bytes, n in self._written) for at, n in enumerate(order)]
        addresses = tuple(arrays[name].pointer for name in order)
        actions = self._actions(tuple(steps), stream, targets)
        return Plan(device, actions, spans, places, addresses)

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
        with driver.active(device), on_device(copied, self._written, chosen) as placed:
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
        self,
        steps: tuple[_Ready | _Filled | Place, ...],
        stream: int,
        targets: Mapping[int, ctypes.c_uint64] = MappingProxyType({}),
    ) -> tuple[Callable[[], None], ...]:
        """Returns functions that enqueue the steps; `targets` are addresses of steps that fill."""
        places = [step for step in steps if isinstance(step, Place)]
        made = tuple(
            self._action(step, stream, targets.get(at))
            for at, step in enumerate(steps)
            if not isinstance(step, Place)
        )
        return (enqueued(made, places, stream),) if places else made

    def _action(
        self, step: _Ready | _Filled, stream: int, target: ctypes.c_uint64 | None
    ) -> Callable[[], None]:
        """Returns the function that enqueues a step."""
        if isinstance(step, _Ready):
            clusters = clusters_for(step.loaded, step.tasks, self.most_clusters)
            return launcher(step.loaded, clusters, step.arguments, stream, early=step.early)
        target, count = target or ctypes.c_uint64(step.pointer), ctypes.c_size_t(step.bytes)
        byte, where = ctypes.c_ubyte(step.byte), driver.pointer(stream)
        return driver.caller("cuMemsetD8Async", target, byte, count, where)

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
            if count <= 0:
                return None
            return _Filled(step.target, first, target.pointer + first, count, step.byte)
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
        loaded = self._loaded[device][step.kernel]
        return _Ready(loaded, tasks, arguments, tuple(step.arguments), early)

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
