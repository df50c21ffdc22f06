"""Emitted CUDA C++ as C++ of the emulator: helper functions and PTX in the kernels' own text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent


class UnknownError(Exception):
    """An instruction or a helper function that the emulator does not know."""


_SELF: Final = "emulated::now->self->"

STATEMENTS: Final[Mapping[str, str]] = {
    r"fence\.proxy\.async[.:\w]*": "",
    r"fence\.mbarrier_init\.release\.cluster": "",
    r"setmaxnreg\.(?:dec|inc)\.sync\.aligned\.u32 \d+": "",
    r"wgmma\.fence\.sync\.aligned": "",
    # Launches follow each other here: a dependent one begins as late as it may.
    r"griddepcontrol\.(?:launch_dependents|wait)": "",
    r"barrier\.cluster\.arrive\.release\.aligned": "emulated::cluster_arrive();",
    r"barrier\.cluster\.wait\.acquire\.aligned": "emulated::cluster_wait();",
    r"barrier\.cta\.sync(?:\.aligned)? (\d+)": r"emulated::cta_barrier(\1, 0);",
    r"barrier\.cta\.sync(?:\.aligned)? %0, (\d+)": r"emulated::cta_barrier($0, \1);",
    r"cp\.async\.wait_all": "emulated::cp_async_wait_all();",
    r"cp\.async\.commit_group": _SELF + "copies.commit();",
    r"cp\.async\.wait_group (\d+)": (
        r'emulated::now->wait("cp.async.wait_group", [self = emulated::now->self] '
        r"{ return self->copies.finished(\1); });"
    ),
    r"cp\.async\.bulk\.commit_group": _SELF + "bulk.commit();",
    r"cp\.async\.bulk\.wait_group (\d+)": r"emulated::bulk_wait(\1, false);",
    r"cp\.async\.bulk\.wait_group\.read (\d+)": r"emulated::bulk_wait(\1, true);",
    r"wgmma\.commit_group\.sync\.aligned": _SELF + "products.commit();",
    r"wgmma\.wait_group\.sync\.aligned (\d+)": (
        r'emulated::now->wait("wgmma.wait_group", [self = emulated::now->self] '
        r"{ return self->products.finished(\1); });"
    ),
}
"""PTX of the kernels' own text, and what it is here; `$0` is the first operand."""

_ASM = re.compile(r'asm volatile\(((?:\s*"[^"]*")+)(.*?)\);', re.DOTALL)
_HELPER = re.compile(
    r"^(?:template[^\n]*\n)?(?:__host__ )?__device__ __forceinline__ .*?^}\n", re.S | re.M
)
_ON_DEVICE = re.compile(r"#ifdef __CUDA_ARCH__\n.*?#else\n(.*?)#endif\n", re.S)
_NAME = re.compile(r"__forceinline__[^(]*?(\w+)\(")
_WGMMA = re.compile(r"Sm90_wgmma_(rs_)?(tf32|f16|bf16)_n(\d+)")


def translated(source: str) -> str:
    """The text of a `.cu` file for the emulator.  Raises UnknownError."""
    known = set(re.findall(r"\b(\w+)\([^;]*?\)\s*{", (HERE / "prelude.hpp").read_text()))
    start = source.index('extern "C" __global__')
    helpers = _ON_DEVICE.sub(r"\1", source[:start])
    helpers = re.sub(r"struct alignas\(64\) TensorMap {.*?};\n", "", helpers, flags=re.S)
    kept = _HELPER.sub(lambda found: _helper(found[0], known), helpers)
    body = _ASM.sub(_statement, source[start:])
    body = re.sub(
        r"extern __shared__ \w+\(\d+\) unsigned char smem\[\];",
        "unsigned char* const smem = emulated::shared();",
        body,
    )
    if "asm" in re.sub(r"//.*", "", kept + body):
        raise UnknownError("PTX outside of what is known")
    return f'#include "prelude.hpp"\n{kept}\n{body}'


def _helper(text: str, known: set[str]) -> str:
    named = _NAME.search(text)
    assert named is not None, text
    name = named[1]
    if name in known or name == "wgmma_descriptor":
        return ""
    if found := _WGMMA.fullmatch(name):
        return _product(name, found)
    if "asm" in text:
        raise UnknownError(f"the helper function {name}")
    return text


def _product(name: str, found: re.Match[str]) -> str:
    kind, columns = found[2].capitalize(), int(found[3])
    if found[1]:
        element = "float" if kind == "Tf32" else "unsigned"
        return (
            f"template <int swizzle>\nvoid {name}(float (&D)[{columns // 2}], int& scale, "
            f"const {element} (&A)[4], const void* B)\n"
            f"{{ emulated::wgmma<emulated::{kind}, 64, {columns}, true>"
            "(D, scale, A, B, swizzle); }\n"
        )
    return (
        f"template <int M, int swizzle>\nvoid {name}(float (&D)[M * {columns} / 128], "
        "int& scale, const void* A, const void* B)\n"
        f"{{ emulated::wgmma<emulated::{kind}, M, {columns}, false>"
        "(D, scale, A, B, swizzle); }\n"
    )


def _statement(found: re.Match[str]) -> str:
    text = "".join(re.findall(r'"([^"]*)"', found[1]))
    operands = re.findall(r'"\w+"\((.*?)\)(?=\s*[:,]|\s*$)', found[2].split('"memory"')[0].strip())
    made = []
    for instruction in re.split(r"\\n\\t|;", text):
        instruction = instruction.strip()
        if not instruction:
            continue
        for pattern, call in STATEMENTS.items():
            if matched := re.fullmatch(pattern, instruction):
                call = matched.expand(call)
                made.append(call.replace("$0", operands[0]) if "$0" in call else call)
                break
        else:
            raise UnknownError(f"the instruction {instruction}")
    return "{ " + " ".join(filter(None, made)) + " }"
