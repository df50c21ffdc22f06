"""Mutants of the kernels of this folder that are proved, and why that is right.

A mutant stands here by its kernel, what was changed and the line of the TTGIR.  Each reason was
found by reading the kernel: what the changed line does is done elsewhere, or nothing needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FIRST_NEXT: Final = ("first", "next")
INVALID: Final = (92, 93, 94)
NO_BARRIER: Final = "without ttg.barrier"
OWN_WAIT: Final = "each thread waits for the copy itself"
ONE_THREAD: Final = "one thread expects the bytes and issues the copies"
END: Final = "the kernel ends"
OTHER_TILE: Final = (
    "the slot holds another tile, which was waited for: no race, but another product"
)
OTHER_COUNT: Final = "who loads and who waits have the same trip count still"
ASSUMED: Final = "its verdict assumes that programs store different tiles of c, and each one once"
OWN_PRODUCT: Final = "the warpgroup whose thread issues the copy has waited for the product"
STORES: Final = tuple(
    f"{one} {at} ttng.async_tma_copy_local_to_global"
    for one in ("half tile", "one tile")
    for at in (0, 1)
)
TURNS: Final = tuple(f"{one} scf.for" for one in ("one more turn", "one turn fewer"))
NO_FIRST: Final = "no first turn scf.for"

REDUNDANT: Final[Mapping[str, Mapping[tuple[str, int], str]]] = {
    "scale_rows": {
        ("weaker ttg.async_wait", 91): "the last copies are masked, and nothing reads them",
        (NO_BARRIER, 92): END,
        **{(one, 55): OTHER_COUNT for one in TURNS},
    },
    "negate_tiles": {
        (NO_BARRIER, 41): ONE_THREAD,
        (NO_BARRIER, 52): OWN_WAIT,
        (NO_BARRIER, 81): END,
    },
    "square_tiles": {(NO_BARRIER, 102): ONE_THREAD},
    "halve_first_ahead": {(NO_BARRIER, line): ONE_THREAD for line in (98, 111)},
    "halve_last_after": {(NO_BARRIER, line): ONE_THREAD for line in (107, 120)},
    "multiply": {
        **{(NO_BARRIER, line): ONE_THREAD for line in (50, 55, 57, 79, 81)},
        (NO_BARRIER, 69): OWN_WAIT,
        ("next slot ttg.memdesc_index", 76): OTHER_TILE,
        ("next slot ttg.memdesc_index", 77): OTHER_TILE,
        (NO_BARRIER, 103): END,
    },
    "multiply_persistent": {
        **{(NO_BARRIER, line): ONE_THREAD for line in (54, 63, 65)},
        **{(NO_BARRIER, line): OWN_WAIT for line in (75, 88)},
        ("weaker ttng.warp_group_dot_wait", 77): "of three slots, the next copy takes the third",
        **{(f"{n} slot ttg.memdesc_index", at): OTHER_TILE for n in FIRST_NEXT for at in (86, 87)},
        **{(one, at): OTHER_COUNT for at in (42, 57) for one in (*TURNS, NO_FIRST)},
        (NO_BARRIER, 102): END,
    },
    "matmul": {
        **{(one, 104): OTHER_COUNT for one in (*TURNS, NO_FIRST)},
        ("without ttg.async_commit_group", 75): "the next commit has the copy in its group, for "
        "which the same wait waits",
        (NO_BARRIER, 131): "wgmma is waited for, and the next copy is to another slot",
        ("weaker ttg.async_wait", 145): "the last group copies b, and only a shares its bytes",
    },
    "add_products": {
        **{(NO_BARRIER, line): ONE_THREAD for line in (62, 86)},
        (NO_BARRIER, 76): OWN_WAIT,
        **{("without ttng.inval_barrier", at): "no other buffer has its bytes" for at in INVALID},
        (NO_BARRIER, 103): END,
    },
    "all_products": {
        **{(one, 47): OTHER_COUNT for one in (*TURNS, NO_FIRST)},
        **{(NO_BARRIER, line): ONE_THREAD for line in (67, 72, 75)},
        (NO_BARRIER, 90): OWN_WAIT,
        **{(NO_BARRIER, line): OWN_PRODUCT for line in (101, 104)},
        **{(one, 122): ASSUMED for one in STORES},
        (NO_BARRIER, 125): END,
    },
}
