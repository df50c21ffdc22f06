"""Everything that the analyses know of one procedure, in one record.

It is made once (`exogpu.analysis.all_facts`) and passed down: lowering, code generation and
reports read it and ask no analysis again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exogpu.analysis import ring_depth
from exogpu.analysis.divergence import Mechanisms, divergences, mechanisms_of
from exogpu.analysis.ownership import Declared, cuda_variables
from exogpu.analysis.sizes import greatest_extents
from exogpu.analysis.thread_names import CollectiveFacts
from exogpu.diagnostics.errors import Diagnostic
from exogpu.ir.nodes import CExpr, Proc
from exogpu.ir.types import Sym


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of exactly one procedure, keyed by the identity of its statements."""

    proc: Proc
    """Without windows and calls of procedures, with frees."""
    collective: CollectiveFacts
    """Who executes what."""
    variables: tuple[Declared, ...]
    """Allocated at CUDA scope, with their uses."""
    mechanisms: Mechanisms
    """The mechanisms of barrier variables."""
    divergences: tuple[Diagnostic, ...]
    """Statements that some threads of their mechanism's unit do not execute."""
    ring_depths: Mapping[Sym, int | None]
    """The ring depths of mbarriers; None where only a proof tells."""
    extents: Mapping[Sym, tuple[CExpr, ...]]
    """The extents of every allocated variable, as functions of the sizes alone."""


def gathered(proc: Proc, collective: CollectiveFacts) -> Facts:
    """The facts of a procedure that collective analysis has accepted."""
    mechanisms = mechanisms_of(proc)
    return Facts(
        proc=proc,
        collective=collective,
        variables=cuda_variables(proc, collective),
        mechanisms=mechanisms,
        divergences=divergences(proc, collective, mechanisms),
        ring_depths=ring_depth.ring_depths(proc),
        extents=greatest_extents(proc),
    )
