"""Translates the kernel of a module to the events of its roles, or refuses it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from exogpu.importing.mlir_text import Module, walk
from exogpu.importing.partition_names import unique_names
from exogpu.importing.refusals import unsupported
from exogpu.importing.role_events import Kernel
from exogpu.importing.source_locations import places_of
from exogpu.importing.translate import Translator
from exogpu.importing.triton_tables import Lowering, accept
from exogpu.importing.while_loops import with_counted_loops


def translate(module: Module, lowering: Lowering, given: Mapping[str, int]) -> Kernel:
    """The events of a module's kernel, some of whose arguments may be given as numbers.

    Raises RefusedError for what is not read exactly.
    """
    places = places_of(module)
    body = with_counted_loops(unique_names(module.function.regions[0].operations), places)
    for operation in walk(body):
        accept(operation, places.span(operation))
    target = module.attributes.get("ttg.target", "")
    if not re.match(r'"cuda:\d+"', target) or module.integer("ttg.threads-per-warp") != 32:
        raise unsupported(
            f"a kernel for {target or 'an unknown target'}, whose warps have "
            f"{module.integer('ttg.threads-per-warp') or 'unknown numbers of'} threads",
            "kernels for CUDA are read",
            places.end,
        )
    for layout in module.aliases.values():
        if layout.startswith("#ttg.padded_shared") or "fp4Padded = true" in layout:
            raise unsupported(
                f"shared memory with padding: {layout}", "lay it out without padding", places.end
            )
    if (module.integer("ttg.num-ctas") or 1) != 1:
        raise unsupported(
            "a kernel whose programs are clusters of CTAs",
            "kernels of one CTA a program are read",
            places.end,
        )
    return Translator(module, places, body, lowering, given).kernel()
