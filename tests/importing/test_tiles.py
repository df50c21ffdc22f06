"""Which programs store different tiles is proved, and assumed by name where it is not."""

from __future__ import annotations

import pytest

from exogpu.imported import ImportedKernel, import_ttgir
from tests.importing.made import KERNELS

BY_NAME = {made.kernel: made for made in KERNELS}


def assumed(text: str) -> list[str]:
    kernel = import_ttgir(text)
    assert isinstance(kernel, ImportedKernel)
    return [one for one in kernel.source.assumptions if "store" in one]


@pytest.mark.parametrize(
    "name", ["negate_tiles", "square_tiles", "multiply", "multiply_persistent"]
)
def test_different_tiles_are_proved(name):
    assert not assumed(BY_NAME[name].text)


def test_tiles_that_overlap_are_not_proved_different():
    """Rows of programs are 31 apart, and their tiles have 32."""
    text = BY_NAME["negate_tiles"].text.replace(
        "%c32_i32 = arith.constant 32 : i32", "%c32_i32 = arith.constant 31 : i32"
    )
    assert assumed(text) == ["programs store different tiles of target"]


def test_one_tile_that_is_stored_again_and_again_is_told():
    """All iterations store the first tile of the row."""
    lines = BY_NAME["negate_tiles"].text.split("\n")
    (at,) = [n for n, line in enumerate(lines) if "copy_local_to_global" in line]
    first, rest = lines[at].split("[", 1)
    row, after = rest.split(", ", 1)
    lines[at] = f"{first}[{row}, %c0_i32]{after.split(']', 1)[1]}"
    assert assumed("\n".join(lines)) == ["a program stores each tile of target once"]


def test_a_tile_that_no_program_id_tells_apart_is_told():
    """All programs store the tiles of the first one."""
    lines = BY_NAME["negate_tiles"].text.split("\n")
    (at,) = [n for n, line in enumerate(lines) if "copy_local_to_global" in line]
    first, rest = lines[at].split("[", 1)
    lines[at] = f"{first}[%c0_i32, {rest.split(', ', 1)[1]}"
    assert "programs store different tiles of target" in assumed("\n".join(lines))
