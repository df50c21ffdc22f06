"""Parameters of tests of which some are long: `make test-long` runs these."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

import pytest
from _pytest.mark.structures import ParameterSet

T = TypeVar("T")


def long_among(every: Iterable[T], long: Collection[T]) -> list[T | ParameterSet]:
    """Every parameter, and those that take long marked so.  Raises AssertionError for one of
    these that is none."""
    found = list(every)
    assert all(one in found for one in long)
    return [pytest.param(one, marks=pytest.mark.long) if one in long else one for one in found]
