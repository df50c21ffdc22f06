"""From a procedure to a packed program: checked, compiled, with its values."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from exogpu.api import Procedure
from exogpu.codegen.compiled import compile_emitted
from exogpu.codegen.runtime.manifest import HostCode, read_manifest
from exogpu.trial.data import at_sizes
from exogpu.trial.packed import Packed


def pack(
    procedure: Procedure,
    sizes: Sequence[Mapping[str, int]],
    source: str,
    *,
    arch: str = "sm_90a",
    tolerance: float = 0.0,
    fractions: bool = False,
    arrive_all: bool = False,
    timeout: float | None = None,
) -> Packed:
    """A procedure that is proved for all sizes, ready to be run at some.

    Its data are whole numbers; with `fractions`, at the last sizes, they are not.

    Raises RefusedError where it is not proved, ExoGpuError where it has no lowering, CompileError
    where the compiler refuses what was emitted.
    """
    emitted, manifest = procedure.emit(arch, timeout=timeout, arrive_all=arrive_all)
    kernel = compile_emitted(emitted, manifest)
    on_the_cpu = HostCode() in read_manifest(kernel.manifest).steps
    seed = zlib.crc32(procedure.name.encode())
    return Packed(
        procedure.name,
        source,
        kernel.manifest,
        kernel.cubin,
        kernel.shared_object if on_the_cpu else None,
        tolerance,
        tuple(
            at_sizes(
                procedure,
                at,
                seed + number,
                fractions=fractions and number == len(sizes) - 1,
            )
            for number, at in enumerate(sizes)
        ),
    )
