"""Solitary mechanisms (decision `solitary-mechanisms`): a thread has one group counter of each
kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from exogpu.analysis.divergence import Mechanisms
from exogpu.analysis.uses import Declared, Use, position_of
from exogpu.ir.isltext import identifier
from exogpu.ir.nodes import Alloc
from exogpu.ir.types import BarrierMechanism
from exogpu.ir.walk import walk
from exogpu.result.errors import Diagnostic, Note
from exogpu.solvers import isl


def check_solitary(variables: Sequence[Declared], mechanisms: Mechanisms) -> Iterator[Diagnostic]:
    """No thread uses two commit groups of one kind, or two cluster syncs, in turns.

    The hardware counts groups of a kind together, so waiting for one would count the other's.
    Two variables are fine one after the other, in disjoint scopes, or by different threads.
    """
    by_kind: dict[str, list[Declared]] = {}
    for declared in variables:
        kind = _kind(declared, mechanisms)
        if kind is not None and declared.uses:
            by_kind.setdefault(kind, []).append(declared)
    for kind, same in by_kind.items():
        for at, second in enumerate(same):
            for first in same[:at]:
                if _interleaved(first, second) and _common_threads(first, second):
                    yield Diagnostic(
                        "D510",
                        f"{first.declaration.name} and {second.declaration.name} are both "
                        f"{kind}, and the same threads use them in turns",
                        second.declaration.span,
                        "use one variable for both, or let the last Await of one come before "
                        "the first Arrive of the other",
                        (Note("the other one", first.declaration.span),),
                    )


def _kind(declared: Declared, mechanisms: Mechanisms) -> str | None:
    alloc = declared.declaration
    if isinstance(alloc, Alloc):
        return None
    match alloc.mechanism:
        case BarrierMechanism.CLUSTER_SYNC:
            return "cluster syncs"
        case BarrierMechanism.COMMIT_GROUP if alloc.name in mechanisms.kinds:
            return f"{mechanisms.kinds[alloc.name].value} commit groups"
        case _:
            return None


def _interleaved(first: Declared, second: Declared) -> bool:
    """Tests whether the statements of the outer variable's block that use the two overlap in order.

    `second` is allocated after `first`; outside of its scope nothing of `first` is left.
    """
    if not any(second.declaration is s for stmt in first.block for s in walk((stmt,))):
        return False
    a = set(position_of(first.block, first.uses).values())
    b = set(position_of(first.block, second.uses).values())
    return not (max(a) < min(b) or max(b) < min(a))


def _common_threads(first: Declared, second: Declared) -> bool:
    return not isl.is_empty(isl.intersect(_threads(first.uses), _threads(second.uses)))


def _threads(uses: Sequence[Use]) -> isl.Set:
    """Threads that make any of the uses, for some iteration."""
    total = isl.set_of((), ("t",), "0 = 1")
    for use in uses:
        tiling = use.where.tiling
        names = [identifier(r.iterator) for r in tiling.ranges]
        text = f"{tiling.domain_text()} and {tiling.threads_text('t')}"
        bound = f"(exists {', '.join(names)} : {text})" if names else text
        total = isl.union(total, isl.set_of((), ("t",), bound))
    return total
