"""Floating point of 8 bits: what its bits stand for, and the bits nearest to a number.

e4m3 has no infinity, and one NaN of each sign; e5m2 is the upper half of f16.  What is greater than
the greatest number becomes that number, as `cvt.rn.satfinite` does (PTX ISA, cvt).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from exogpu.ir.types import DataType


@dataclass(frozen=True, slots=True)
class Format:
    """Bits of the fraction, the exponent of the least normal number, and the greatest number."""

    fraction: int
    least: int
    greatest: float
    nan: int
    """Bits of a NaN."""


FORMATS: Final = {
    DataType.F8E4M3: Format(3, -6, 448.0, 0x7F),
    DataType.F8E5M2: Format(2, -14, 57344.0, 0x7F),
}


def number(bits: int, dtype: DataType) -> float:
    """Returns the number that bits encode.

    >>> number(0x7E, DataType.F8E4M3), number(0x01, DataType.F8E5M2)
    (448.0, 1.52587890625e-05)
    """
    form, most = FORMATS[dtype], bits & 0x7F
    exponent, fraction = most >> form.fraction, most % (1 << form.fraction)
    if dtype is DataType.F8E5M2 and most == 0x7C:
        size = math.inf
    elif most > bits_of_size(form.greatest, form):
        size = math.nan
    else:
        whole = fraction + ((1 << form.fraction) if exponent else 0)
        size = math.ldexp(whole, max(exponent, 1) - 1 + form.least - form.fraction)
    return -size if bits >> 7 else size


def bits_of_size(size: float, form: Format) -> int:
    """The bits nearest to a number that is not negative, ties to even, without a limit.

    >>> bits_of_size(1.0, FORMATS[DataType.F8E4M3])
    56
    """
    exponent = max(math.frexp(size)[1] - 1 if size else form.least, form.least)
    whole = round(math.ldexp(size, form.fraction - exponent))
    return int(((exponent - form.least) << form.fraction) + whole)


def nearest(value: float, dtype: DataType) -> int:
    """The bits of the nearest number, or of the greatest.

    >>> [number(nearest(x, DataType.F8E4M3), DataType.F8E4M3) for x in (1.06, -1e9)]
    [1.0, -448.0]
    """
    form, sign = FORMATS[dtype], 0x80 if math.copysign(1, value) < 0 else 0
    if math.isnan(value):
        return form.nan
    return sign | bits_of_size(min(abs(value), form.greatest), form)
