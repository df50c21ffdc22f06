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
    r"griddepcontrol\.launch_dependents": "",
    r"griddepcontrol\.wait": "emulated::wait_for_launches();",
    r"barrier\.cluster\.arrive\.release\.aligned": "emulated::cluster_arrive();",
    r"barrier\.cluster\.wait\.acquire\.aligned": "emulated::cluster_wait();",
    r"barrier\.cta\.sync(?:\.aligned)? (\d+)": r"emulated::cta_barrier(\1, 0);",
    r"barrier\.cta\.sync(?:\.aligned)? %0, (\d+)": r"emulated::cta_barrier($0, \1);",
    r"barrier\.cta\.arrive(?:\.aligned)? %0, (\d+)": r"emulated::cta_arrive($0, \1);",
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
    r"^(?:template[^\n]*\n)?(?:__host__ )?__device__ __forceinline__ (?:[^\n]*}\n|.*?^}\n)",
    re.S | re.M,
)
_MACRO = re.compile(r"^#(?:define|undef) (?:.*\\\n)*.*\n", re.M)
"""The macros of helper functions, which the emulator has in its own way."""
_ON_DEVICE = re.compile(r"#if(?:def)? __CUDA_ARCH__.*?\n.*?#else\n(.*?)#endif\n", re.S)
_NAME = re.compile(r"__forceinline__[^(]*?(\w+)\(")
_WGMMA = re.compile(
    r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k\d+\.[fs]32\.(\w+)\.(\w+) .*?"
    r"accumulate(?:, ([\d, ]+))?;",
    re.S,
)
_LDMATRIX = re.compile(
    r'asm volatile\("ldmatrix\.sync\.aligned\.m8n8\.x4(\.trans)?\.shared\.b16 [^"]*"'
    r'\s*: "=r"\((\w+)\[0\]\).*?: "r"\((\w+)\) : "memory"\);',
    re.S,
)
_TYPES: Final = {
    ("tf32", "tf32"): "Tf32",
    ("f16", "f16"): "F16",
    ("bf16", "bf16"): "Bf16",
    ("e4m3", "e4m3"): "E4m3",
    ("e5m2", "e5m2"): "E5m2",
    ("s8", "s8"): "I8",
    ("u8", "u8"): "Ui8",
}
"""By the types of A and B."""


def translated(source: str) -> str:
    """The text of a `.cu` file for the emulator.  Raises UnknownError."""
    known = set(re.findall(r"\b(\w+)\([^;]*?\)\s*{", (HERE / "prelude.hpp").read_text()))
    start = source.index('extern "C" __global__')
    helpers = _ON_DEVICE.sub(r"\1", source[:start])
    helpers = re.sub(r"struct alignas\(64\) TensorMap {.*?};\n", "", helpers, flags=re.S)
    helpers = _MACRO.sub("", helpers)
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
    if name in known:
        return ""
    if "wgmma.mma_async" in text:
        return _product(text)
    text = _LDMATRIX.sub(_load, text)
    if "asm" in text:
        raise UnknownError(f"the helper function {name}")
    return text


def _product(text: str) -> str:
    """A helper function of wgmma with the instruction as a call: its operands are what hardware
    gets, the descriptors in shared memory and the flags of a transposed operand."""
    head, asm, tail = re.split(r"(asm volatile\(.*?\);)", text, maxsplit=1, flags=re.S)
    told = _WGMMA.search(asm)
    assert told is not None, text
    columns, kind = int(told[1]), _TYPES[told[2], told[3]]
    flags = (told[4] or "").split(", ")
    of_d, of_a, of_b = re.findall(r'"\+[fr]"\(([^"]*)\)', asm)[0], "", ""
    inputs = re.findall(r'"([rl])"\(([^"]*)\)', asm)
    descriptors = [expression for letter, expression in inputs if letter == "l"]
    of_a = "a" if len(descriptors) == 1 else descriptors[0]
    of_b = descriptors[-1]
    registers = len(descriptors) == 1
    transposed = [flag == "1" for flag in flags[2:]]
    a_major = bool(transposed) and not registers and transposed[0]
    b_major = bool(transposed) and transposed[-1]
    arguments = f"emulated::{kind}, {columns}, {_bool(a_major)}, {_bool(b_major)}"
    call = f"emulated::wgmma<{arguments}>(&{of_d}, {of_a}, {of_b}, scale);"
    if "asm" in tail:
        raise UnknownError("two instructions in a helper function of wgmma")
    if registers:  # what lies in them while the product is in flight
        head = re.sub(r"    const unsigned a\[4\] = .*?;\n", "    auto& a = A;\n", head)
    return f"{head}{call}{tail}"


def _load(found: re.Match[str]) -> str:
    """ldmatrix: the registers and the address."""
    return f"emulated::ldmatrix<{_bool(bool(found[1]))}>({found[2]}, {found[3]});"


def _bool(value: bool) -> str:
    return "true" if value else "false"


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
