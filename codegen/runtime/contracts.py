"""Checks the proof's assumptions about the contents of arrays on the CPU, for debugging."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

from exogpu.codegen.runtime.arrays import Array
from exogpu.codegen.runtime.driver import call, copy_out
from exogpu.codegen.runtime.errors import LaunchError
from exogpu.codegen.runtime.manifest import Contract
from exogpu.codegen.runtime.streams import pointer

_CODES: Mapping[str, str] = {"i32": "i", "i64": "q"}
"""Of Python's memoryviews, by the types that indices have."""


def check_contracts(
    contracts: Sequence[Contract],
    arrays: Mapping[str, Array],
    dtypes: Mapping[str, str],
    stream: int,
) -> None:
    """Copies the arrays to the host, and waits for them.  Raises LaunchError for the first elements
    that break a contract."""
    for contract in contracts:
        array = arrays[contract.array]
        told = broken(contract, _elements(array, _CODES[dtypes[contract.array]], stream))
        if told:
            what = f"{contract.kind}({contract.array}) does not hold: {told}"
            raise LaunchError(what, "the proof assumes it: give an array that satisfies it")


def broken(contract: Contract, elements: Sequence[int]) -> str:
    """The first elements that break a contract, in words; empty: it holds.

    >>> broken(Contract("monotone", "cuts"), [0, 4, 3])
    'cuts[1] is 4, and cuts[2] is 3'
    >>> broken(Contract("injective", "perm"), [5, 7, 5])
    'perm[0] and perm[2] are 5'
    """
    name = contract.array
    if contract.kind == "monotone":
        for at in range(1, len(elements)):
            if elements[at] < elements[at - 1]:
                before, here = f"{name}[{at - 1}]", f"{name}[{at}]"
                return f"{before} is {elements[at - 1]}, and {here} is {elements[at]}"
        return ""
    seen: dict[int, int] = {}
    for at, value in enumerate(elements):
        if (first := seen.setdefault(value, at)) != at:
            return f"{name}[{first}] and {name}[{at}] are {value}"
    return ""


def _elements(array: Array, code: str, stream: int) -> Sequence[int]:
    if array.bytes == 0:
        return ()
    held = (ctypes.c_char * array.bytes)()
    if array.host:
        ctypes.memmove(held, array.pointer, array.bytes)
    else:
        copy_out(ctypes.addressof(held), array.pointer, array.bytes, pointer(stream))
        call("cuStreamSynchronize", pointer(stream))
    return memoryview(held).cast("B").cast(code)  # type: ignore[call-overload,no-any-return]
