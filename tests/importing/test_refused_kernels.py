"""What the reader does not know exactly is refused, with the operation and the user's line."""

from __future__ import annotations

import pytest

from exogpu.imported import ImportedKernel, UnimportedKernel, import_ttgir
from exogpu.ir.nodes import ControlParam
from tests.importing.made import KERNELS

BY_NAME = {made.kernel: made for made in KERNELS}


def edited(name: str, at: str, *lines: str, nth: int = 0) -> str:
    """A kernel with the nth line that has these words replaced; `{}` stands for the line itself."""
    old = BY_NAME[name].text.split("\n")
    found = [n for n, line in enumerate(old) if at in line and not line.startswith("#loc")]
    n = found[nth]
    made = [line.replace("{}", old[n].strip()) for line in lines]
    return "\n".join([*old[:n], *made, *old[n + 1 :]])


def refusal(text: str) -> tuple[str, str]:
    """The code, and all that is said."""
    kernel = import_ttgir(text)
    assert isinstance(kernel, UnimportedKernel) and kernel.hazard is None
    verdict = kernel.check()
    assert verdict.word == "undecided" and not verdict.hazards
    assert kernel.reason.code in verdict.reason and kernel.reason.help
    return kernel.reason.code, verdict.reason


def within(condition: str, *lines: str) -> tuple[str, ...]:
    """Lines under a condition."""
    return (f"scf.if {condition} {{", *lines, "} loc(unknown)")


TILE = "32x64xf32, #shared, #smem, mutable"
SMALL = (
    "%few = arith.trunci %step : i32 to i{n} loc(unknown)",
    "%more = arith.addi %few, %few : i{n} loc(unknown)",
    "%wide = arith.extsi %more : i{n} to i32 loc(unknown)",
    "%slot = arith.remsi %wide, %c2_i32 : i32 loc(unknown)",
)


@pytest.mark.parametrize("bits", [8, 16])
def test_narrow_integers_may_wrap(bits):
    lines = [line.replace("{n}", str(bits)) for line in SMALL]
    code, said = refusal(edited("negate_tiles", "%slot = arith.remsi", *lines))
    assert code == "K103" and "kernels/copies.py" in said


def test_integers_of_32_bits_are_exact():
    """The same through i64, which does not wrap: twice a step is even, so slot 1 is not visited."""
    lines = [line.replace("trunci", "extsi").replace("{n}", "64") for line in SMALL]
    lines[2] = lines[2].replace("extsi", "trunci")
    code, said = refusal(edited("negate_tiles", "%slot = arith.remsi", *lines))
    assert code == "K103" and "out of turn" in said


def test_a_part_of_a_tile_that_is_written_is_refused():
    part = f"!ttg.memdesc<{TILE}> -> !ttg.memdesc<{TILE}>"
    text = edited(
        "negate_tiles",
        "ttg.local_store",
        f"%part = ttg.memdesc_subslice %out[0, 0] : {part} loc(unknown)",
        f"ttg.local_store %19, %part : tensor<32x64xf32, #blocked> -> !ttg.memdesc<{TILE}> "
        "loc(unknown)",
    )
    code, said = refusal(text)
    assert code == "K104" and "writes some of a tile" in said


def test_copies_in_two_layouts_into_one_ring_are_refused():
    text = BY_NAME["scale_rows"].text
    other = text.split("\n")[0].replace("#blocked", "#other", 1)
    assert other.startswith("#other = #ttg.blocked<")
    other = other.replace("order = [1, 0]", "order = [0, 1]")
    text = f"{other}\n{text}"
    lines = text.split("\n")
    (*_, last) = [n for n, line in enumerate(lines) if "async_copy_global_to_local" in line]
    lines[last] = lines[last].replace("#blocked", "#other", 1)
    code, said = refusal("\n".join(lines))
    assert code == "K104" and "in two layouts" in said


def test_padding_is_refused():
    lines = BY_NAME["negate_tiles"].text.split("\n")
    (at,) = [n for n, line in enumerate(lines) if line.startswith("#shared = ")]
    lines[at] = "#shared = #ttg.padded_shared<[256:+8] {order = [1, 0], shape = [32, 64]}>"
    code, said = refusal("\n".join(lines))
    assert code == "K104" and "padding" in said


def test_threads_that_hold_an_element_twice_have_no_parts():
    """A layout of more threads than elements: which thread's store is last is not known, so all
    threads of the warps store all of it."""
    wide = BY_NAME["negate_tiles"].text.replace(
        "sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1]",
        "sizePerThread = [1, 4], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1]",
    )
    exact, shared = (import_ttgir(text) for text in (BY_NAME["negate_tiles"].text, wide))
    assert isinstance(exact, ImportedKernel) and isinstance(shared, ImportedKernel)
    assert "store_shared" not in str(exact.ir) and "store_shared" in str(shared.ir)


CONDITION = "%held = arith.cmpi slt, %step, %c1_i32 : i32 loc(unknown)"
DATA = "%held = arith.cmpi ult, %columns, %c1_i32 : i32 loc(unknown)"


def test_a_wait_in_a_branch_is_refused():
    text = edited("negate_tiles", "ttng.wait_barrier %14", CONDITION, *within("%held", "{}"))
    code, said = refusal(text)
    assert code == "K104" and "under a condition" in said and "kernels/copies.py" in said


def test_an_mbarrier_that_a_branch_initialises_is_refused():
    condition = DATA.replace("ult", "slt")
    text = edited("negate_tiles", "ttng.init_barrier %1,", condition, *within("%held", "{}"))
    code, said = refusal(text)
    assert code == "K104" and "initialised in a branch" in said


def test_a_barrier_that_data_decide_may_be_left_out():
    """An unsigned comparison is not read, so it is not known when the threads meet.  A kernel that
    fails where they do not is not refuted: they may always meet."""
    text = edited("negate_tiles", "ttg.barrier local", DATA, *within("%held", "{}"), nth=4)
    verdict = import_ttgir(text).check(timeout=60)
    assert verdict.word == "undecided" and not verdict.hazards
    assert "conditions that are data" in verdict.reason and "WAR of lines" in verdict.reason


def test_a_barrier_in_a_branch_orders_there_alone():
    """The store's buffer is free when the wait is over, but other warps hear of it at times."""
    text = edited("negate_tiles", "ttg.barrier local", CONDITION, *within("%held", "{}"), nth=4)
    verdict = import_ttgir(text).check(timeout=60)
    assert verdict.word == "refuted"
    (trips,) = [n for name, n in verdict.hazards[0].sizes.items() if name.startswith("trips")]
    assert trips == 2


def test_programs_are_told_apart_by_the_axes_that_are_read():
    y = BY_NAME["negate_tiles"].text.replace("tt.get_program_id x", "tt.get_program_id y")
    kernel = import_ttgir(y)
    assert isinstance(kernel, ImportedKernel) and kernel.ir is not None
    grid = [p.name.name for p in kernel.ir.params if isinstance(p, ControlParam)]
    assert "grid_y" in grid and "grid_x" not in grid
    assert not any("store" in one for one in kernel.source.assumptions)


def test_an_axis_that_stores_do_not_depend_on_is_refuted():
    text = edited(
        "negate_tiles", "%row = tt.get_program_id x", "{}", "%z = tt.get_program_id z : i32"
    )
    kernel = import_ttgir(text)
    assert isinstance(kernel, UnimportedKernel) and kernel.hazard is not None
    assert "programs 0 and 1 of axis z store overlapping tiles" in kernel.hazard.message


@pytest.mark.parametrize(
    ("name", "at", "lines", "code", "said"),
    [
        (
            "negate_tiles",
            "arith.negf",
            ("{}", "%old = tt.atomic_rmw fadd, acq_rel, gpu, %p, %v, %true : i32 loc(unknown)"),
            "K102",
            "tt.atomic_rmw",
        ),
        (
            "negate_tiles",
            "%value = ttg.memdesc_index",
            ("{}", f"%b = arith.select %true, %value, %out : !ttg.memdesc<{TILE}> loc(unknown)"),
            "K104",
            "arith.select of a buffer",
        ),
        (
            "square_tiles",
            "ttg.warp_specialize",
            ("%c = arith.constant 0 : i32 loc(unknown)", "scf.while (%n = %c) {"),
            "K101",
            "",
        ),
    ],
)
def test_operations_that_are_not_read(name, at, lines, code, said):
    found, text = refusal(edited(name, at, *lines))
    assert found == code and said in text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"ttg.num-ctas" = 1', '"ttg.num-ctas" = 2', "clusters of CTAs"),
        ('ttg.target = "cuda:90"', 'ttg.target = "hip:gfx942"', "hip"),
        ("bCluster = false", "bCluster = true", "of a cluster"),
        ('"ttg.threads-per-warp" = 32', '"ttg.threads-per-warp" = 64', "64 threads"),
    ],
)
def test_kernels_of_other_machines_are_refused(old, new, said):
    text = BY_NAME["negate_tiles"].text
    assert old in text
    code, reason = refusal(text.replace(old, new, 1))
    assert code == "K104" and said in reason


def test_a_triton_that_is_not_known_is_refused():
    kernel = import_ttgir(BY_NAME["negate_tiles"].text, version="4.0.0")
    assert isinstance(kernel, UnimportedKernel) and kernel.reason.code == "K104"
    assert "Triton 4.0.0 is not known" in kernel.check().reason
