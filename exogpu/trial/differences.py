"""Compares an array that a device wrote with the expected one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from exogpu.meaning.eights import from_bits, to_bits

Array = npt.NDArray[np.generic]


def decoded(array: Array, dtype: str) -> Array:
    """The values of an array as a device holds it: bf16 and 8-bit floats come as their bits."""
    if dtype.startswith("f8"):
        return from_bits(array, dtype)
    if dtype == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def encoded(array: Array, dtype: str) -> Array:
    """A copy as a device holds it: the inverse of `decoded`."""
    if dtype.startswith("f8"):
        return to_bits(array.astype(np.float32), dtype)
    if dtype == "bf16":
        return (array.view(np.uint32) >> 16).astype(np.uint16)
    return array.copy()


def difference(found: Array, wanted: Array, dtype: str, tolerance: float) -> str:
    """Describes the first difference of two arrays, and the number of differing elements; empty if
    they agree.

    NaN agrees with NaN, and -0 with 0.
    """
    have, want = decoded(found, dtype), decoded(wanted, dtype)
    with np.errstate(all="ignore"):
        agree = have == want
        if have.dtype.kind == "f":
            agree |= np.isnan(have) & np.isnan(want)
            if tolerance:
                off = np.abs(have.astype(np.float64) - want.astype(np.float64))
                agree |= off <= tolerance * np.abs(want.astype(np.float64))
    if agree.all():
        return ""
    wrong = np.argwhere(~agree)
    at = tuple(int(i) for i in wrong[0])
    return f"{len(wrong)} of {agree.size} elements, first {at}: {have[at]} for {want[at]}"
