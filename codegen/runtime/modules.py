"""Cubins on a device: kernels ready to be launched."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from exogpu.codegen.runtime.driver import MULTIPROCESSORS, Gpu, attribute, call, caller, pointer
from exogpu.codegen.runtime.manifest import Launch, LaunchError


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16))


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


_CLUSTER_DIMENSION: Final = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
_COOPERATIVE: Final = 2  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE
_PROGRAMMATIC: Final = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
_MAX_SHARED: Final = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_NON_PORTABLE: Final = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
_PORTABLE_CLUSTER: Final = 8
_NEARLY: Final = (15, 16)
"""The share of the clusters that the device holds; the rest is left idle for the sake of the
others."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A kernel on a device."""

    launch: Launch
    function: ctypes.c_void_p
    clusters: int
    """The number of clusters that the device holds at a time."""


def check_arch(arch: str, gpu: Gpu) -> None:
    """Checks that a GPU runs code for an architecture: `sm_90a` on 9.0 alone, `sm_80` on 8.x.

    Raises LaunchError.
    """
    found = re.fullmatch(r"sm_(\d+)(\d)([af]?)", arch)
    major, minor = gpu.capability
    if found is not None:
        least = int(found[2])
        fits = minor == least if found[3] == "a" else minor >= least
        if major == int(found[1]) and fits:
            return
    what = f"the kernel is compiled for {arch}, and GPU {gpu.ordinal} ({gpu.name}) is"
    raise LaunchError(f"{what} sm_{major}{minor}", "compile it for that architecture")


def module_of(cubin: bytes) -> ctypes.c_void_p:
    """A cubin on the current device."""
    module = ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), cubin)
    return module


def load(module: ctypes.c_void_p, launches: tuple[Launch, ...], device: int) -> dict[str, Loaded]:
    """The kernels of a module on the current device, by name.

    Raises LaunchError where one does not fit the device.
    """
    return {launch.kernel: _load(module, launch, device) for launch in launches}


def _load(module: ctypes.c_void_p, launch: Launch, device: int) -> Loaded:
    function, count = ctypes.c_void_p(), ctypes.c_int()
    call("cuModuleGetFunction", ctypes.byref(function), module, launch.kernel.encode())
    call("cuFuncSetAttribute", function, _MAX_SHARED, launch.shared_bytes)
    if launch.cluster > _PORTABLE_CLUSTER:
        call("cuFuncSetAttribute", function, _NON_PORTABLE, 1)
    where, shared = ctypes.byref(count), ctypes.c_size_t(launch.shared_bytes)
    if launch.cluster == 1:
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        call(name, where, function, launch.block, shared)
        clusters = count.value * attribute(device, MULTIPROCESSORS)
    else:
        config = _config(launch, 1, 0)
        call("cuOccupancyMaxActiveClusters", where, function, ctypes.byref(config))
        clusters = count.value
    if clusters < 1:
        raise LaunchError(f"{launch.kernel} needs more than this GPU has", "use smaller tiles")
    return Loaded(launch, function, clusters)


def clusters_for(loaded: Loaded, tasks: int, most: int | None) -> int:
    """Returns the number of clusters that take the tasks: as many as the device holds, and no more
    than `most`.

    Of a `level` launch that is as few as take them in as many rounds, where these are nearly all:
    those of a round then read the same parts of memory from its begin to its end.  Raises
    LaunchError where the tasks cannot be numbered.
    """
    held = loaded.clusters
    if loaded.launch.level and tasks:
        rounds = -(-tasks // held)
        few = -(-tasks // rounds)
        held = few if few * _NEARLY[1] >= held * _NEARLY[0] else held
    clusters = min(tasks, held)
    if tasks + clusters >= 1 << 31:  # a cluster's next task has a number, even if there is none
        what = f"{tasks} tasks are more than a launch can number"
        raise LaunchError(what, "divide the work into several calls")
    return clusters if most is None else min(clusters, most)


def launcher(
    loaded: Loaded,
    clusters: int,
    arguments: list[ctypes._CData],
    stream: int,
    *,
    early: bool = False,
) -> Callable[[], None]:
    """Launches a kernel on so many clusters, which the device must hold at a time; `early`, before
    the kernel right before it on the stream has ended."""
    pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
    config = _config(loaded.launch, clusters, stream, early=early)
    where = ctypes.byref(config)
    # `pointers` points into the arguments, which live as long as the function.
    return caller("cuLaunchKernelEx", where, loaded.function, pointers, None, keep=arguments)


def _config(launch: Launch, clusters: int, stream: int, *, early: bool = False) -> _Config:
    attributes, count = (_Attribute * 3)(), 0
    if launch.cluster > 1:
        attributes[0].id = _CLUSTER_DIMENSION
        attributes[0].value[0:3] = (launch.cluster, 1, 1)
        count = 1
    if launch.together:
        attributes[count].id = _COOPERATIVE
        attributes[count].value[0] = 1
        count += 1
    if early:
        attributes[count].id = _PROGRAMMATIC
        attributes[count].value[0] = 1
        count += 1
    return _Config(
        (clusters * launch.cluster, 1, 1),
        (launch.block, 1, 1),
        launch.shared_bytes,
        pointer(stream),
        ctypes.cast(attributes, ctypes.POINTER(_Attribute)),
        count,
    )
