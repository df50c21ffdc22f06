"""Which programs store different tiles is proved, and assumed by name where it is not."""

from __future__ import annotations

import pytest

from exogpu.diagnostics.hazards import HazardKind
from exogpu.imported import ImportedKernel, UnimportedKernel, import_ttgir
from tests.importing.made import KERNELS
from tests.importing.random_roles import Choice, text

BY_NAME = {made.kernel: made for made in KERNELS}


def assumed(text: str) -> list[str]:
    kernel = import_ttgir(text)
    assert isinstance(kernel, ImportedKernel)
    words = ("store", "one program")
    return [one for one in kernel.source.assumptions if any(word in one for word in words)]


@pytest.mark.parametrize(
    "name", ["negate_tiles", "square_tiles", "multiply", "multiply_persistent"]
)
def test_different_tiles_are_proved(name):
    assert not assumed(BY_NAME[name].text)


def refuted(text: str) -> str:
    """The message of a kernel that reading shows to be wrong."""
    kernel = import_ttgir(text)
    assert isinstance(kernel, UnimportedKernel) and kernel.hazard is not None
    assert kernel.check().word == "refuted" and kernel.hazard.kind is HazardKind.WAW
    return kernel.hazard.message


def stored_at(name: str, row: str, column: str, *before: str) -> str:
    """A kernel whose tiles are stored elsewhere; `{}` stands for the coordinate that it had."""
    lines = BY_NAME[name].text.split("\n")
    (at,) = [n for n, line in enumerate(lines) if "copy_local_to_global" in line]
    first, rest = lines[at].split("[", 1)
    inside, after = rest.split("]", 1)
    old_row, old_column = inside.split(", ")
    lines[at] = f"{first}[{row.format(old_row)}, {column.format(old_column)}]{after}"
    made = [f"%made{n} = {text.format(old_row)} loc(unknown)" for n, text in enumerate(before)]
    return "\n".join([*lines[:at], *made, *lines[at:]])


def test_tiles_that_overlap_are_refuted():
    """Rows of programs are 31 apart, and their tiles have 32."""
    text = BY_NAME["negate_tiles"].text.replace(
        "%c32_i32 = arith.constant 32 : i32", "%c32_i32 = arith.constant 31 : i32"
    )
    assert refuted(text) == (
        "programs 0 and 1 of axis x store overlapping tiles of target, whatever the arguments are"
    )


def test_one_tile_that_is_stored_again_and_again_is_refuted():
    """All iterations store the first tile of the row, and no wait is for more than reading."""
    text = stored_at("negate_tiles", "{}", "%c0_i32")
    assert "two iterations of one program" in refuted(text)
    complete = text.replace("{pendings = 0 : i32, read_only}", "{pendings = 0 : i32}")
    assert assumed(complete) == ["a program stores each tile of target once"]


def test_a_tile_that_no_program_id_tells_apart_is_refuted():
    """All programs store the tiles of the first one."""
    assert "programs 0 and 1" in refuted(stored_at("negate_tiles", "%c0_i32", "{}"))


def test_two_programs_that_store_one_tile_are_refuted():
    half = ("arith.divsi %row, %c2_i32 : i32", "arith.muli %made0, %c32_i32 : i32")
    assert "programs 0 and 1" in refuted(stored_at("negate_tiles", "%made1", "{}", *half))


def test_tiles_that_depend_on_an_argument_are_assumed_different():
    """A stride of the user's may be 0, or large enough."""
    stride = ("arith.muli %row, %columns : i32",)
    text = stored_at("negate_tiles", "%made0", "{}", *stride)
    assert assumed(text) == ["programs store different tiles of target"]


def test_a_kernel_that_reads_no_program_id_is_one_program():
    program = text(Choice())
    assert assumed(program) == ["one program is launched, since the kernel reads no program id"]
