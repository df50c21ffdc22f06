"""Suggests a name for one that is not there: another spelling, or CUDA's word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from exogpu.hw.language import LANGUAGE

WORDS: Final = (
    *("Fence", "Arrive", "Await", "uninit", "seq", "cuda_tasks", "cuda_threads"),
    *("CudaDeviceFunction", "CudaWarps", "size", "index", "barrier"),
    *("load_index", "monotone", "injective", "slot"),
)
"""Words of statements and parameters."""

CUDA: Final[Mapping[str, str]] = {
    "__syncthreads": "write Fence(cuda_in_order, cuda_in_order) where all threads take part",
    "__syncwarp": "write Fence(cuda_in_order, cuda_in_order) where the warp's threads take part",
    "__threadfence": "write the Fence, or Arrive and Await, that orders the accesses",
    "threadIdx": "write a loop, for t in cuda_threads(0, n, unit=cuda_thread), and use t",
    "blockIdx": "write a loop, for b in cuda_tasks(0, n), and use b",
    "blockDim": "use the number that CudaDeviceFunction(blockDim=...) is given",
    "gridDim": "use the bounds of the cuda_tasks loop",
    "cudaGridDependencySynchronize": (
        "write Fence(cuda_stream_sync, cuda_in_order) in a launch with dependent=True"
    ),
    "cudaTriggerProgrammaticLaunchCompletion": (
        "leave it out: a launch lets the dependent one after it begin"
    ),
    "warpSize": "use 32, or a unit such as cuda_warp",
}
"""What stands for a name of CUDA C++."""

TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("float", "float32", "fp32", "single"), "f32"),
    **dict.fromkeys(("double", "float64", "fp64"), "f64"),
    **dict.fromkeys(("half", "float16", "fp16", "__half"), "f16"),
    **dict.fromkeys(("float8_e4m3fn", "fp8", "__nv_fp8_e4m3", "e4m3"), "f8e4m3"),
    **dict.fromkeys(("float8_e5m2", "__nv_fp8_e5m2", "e5m2"), "f8e5m2"),
    **dict.fromkeys(("bfloat16", "__nv_bfloat16"), "bf16"),
    **dict.fromkeys(("int", "int32", "int32_t"), "i32"),
    **dict.fromkeys(("int8", "int8_t", "char"), "i8"),
    **dict.fromkeys(("int64", "int64_t", "long"), "i64"),
    **dict.fromkeys(("uint8", "uint8_t", "u8"), "ui8"),
    **dict.fromkeys(("uint16", "uint16_t", "u16"), "ui16"),
    **dict.fromkeys(("uint64", "uint64_t", "u64"), "ui64"),
}
"""The language's name of a type that others name so."""


INSTRUCTIONS: Final[Mapping[str, str]] = {"cuda_": "cuda", "Sm80_": "sm80", "Sm90_": "sm90"}
"""What names of instructions begin with, and the module of `exogpu.isa` that has these."""


def meant(name: str, known: Iterable[str]) -> str | None:
    """The known name that is spelt most like this one, if one is."""
    others = (one for one in known if one != name and not one.startswith("__"))
    plain = {_plain(one): one for one in others}
    close = get_close_matches(_plain(name), plain, n=1, cutoff=0.75)
    return plain[close[0]] if close else None


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def undefined(name: str, known: Iterable[str]) -> str:
    """The remedy of a name that is not defined."""
    if name in CUDA:
        return CUDA[name]
    if name in TYPES:
        return f"the language's type is {TYPES[name]}"
    close = meant(name, (*WORDS, *LANGUAGE, *known))
    declare = f"declare it, as a parameter, such as {name}: size, or a variable"
    otherwise = f"{declare}; or define or import the name"
    for beginning, module in INSTRUCTIONS.items():
        if name.startswith(beginning):
            otherwise = f"from exogpu.isa.{module} import {name}, if it is an instruction"
    return f"did you mean {close}? Else {otherwise}" if close else otherwise
