"""Random programs in source form by their names: `SEED` of all pieces, `SHAPE_SEED` of a shape."""

from __future__ import annotations

import sys

from campaigns.gpu import programs
from campaigns.reach import generate as reach
from campaigns.reach.generate import SHAPES


def program_of(name: str) -> programs.Program:
    """The program of `SEED` (`campaigns.gpu.programs`), or of `SHAPE_SEED` (`campaigns.reach`).
    Exits with a message where there is none."""
    shape, _, seed = name.rpartition("_")
    if not seed.isdecimal() or (shape and shape not in SHAPES):
        sys.exit(f"no program is called {name}: give SEED, or SHAPE_SEED, of {', '.join(SHAPES)}")
    return reach.generated(shape, int(seed)) if shape else programs.generated(int(seed))


def names(total: int, first: int, only: str | None) -> list[str]:
    """So many: of all pieces, of the shapes of `reach` in turn, or of one of them.  Exits with a
    message for another word."""
    if only not in (None, "reach", *SHAPES):
        sys.exit(f"{only} is no shape: give reach, or one of {', '.join(SHAPES)}")
    if only is None:
        return [str(seed) for seed in range(first, first + total)]
    shapes = list(SHAPES) if only == "reach" else [only]
    return [f"{shapes[n % len(shapes)]}_{first + n // len(shapes)}" for n in range(total)]
