"""The instructions that PTX has to have for a Fence, an Arrive or an Await of the program.

Only what needs no analysis of the rest of the kernel is known here: instructions that carry the
claim of the operation whatever stands around it (docs/lowering.md).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

from exogpu.amir import nodes as amir
from exogpu.hw.timelines import ASYNC_PROXY, WGMMA
from exogpu.ir.types import BarrierMechanism, QualTL, Sym
from exogpu.validate.events import Sync
from exogpu.validate.refusals import NotValidatedError, refusal_of

_ORDINARY: Final = frozenset({QualTL.CUDA1, QualTL.CUDA2})
_GROUPS: Final = frozenset({QualTL.SM80})


def expected_of(
    op: amir.Fence | amir.Arrive | amir.Await,
    block: int,
    mechanism: Callable[[Sym], BarrierMechanism | None],
) -> tuple[Sync, ...]:
    """The instructions, in order.  Raises NotValidatedError for what is not known yet."""
    match op:
        case amir.Fence():
            return _fence(op, block)
        case amir.Arrive():
            if mechanism(op.home.name) is BarrierMechanism.COMMIT_GROUP and op.pre == _GROUPS:
                return (Sync("commit cp.async"),)
        case amir.Await() if op.n >= 0:
            if mechanism(op.barrier.name) is BarrierMechanism.COMMIT_GROUP:
                if op.full & (ASYNC_PROXY | WGMMA):
                    raise _unknown(op, "waits for the async proxy")
                return (Sync("wait cp.async", (op.n,)),)
    raise _unknown(op, "is of a mechanism")


def _fence(op: amir.Fence, block: int) -> tuple[Sync, ...]:
    if not op.joins:
        raise _unknown(op, "is a fence of wgmma")
    if op.pre - _ORDINARY - _GROUPS:
        raise _unknown(op, "waits for more than ordinary accesses and cp.async")
    if op.full & (ASYNC_PROXY | WGMMA):
        raise _unknown(op, "fences proxies")
    found = [Sync("drain cp.async")] if QualTL.SM80 in op.pre else []
    threads = op.origin.threads
    count = 0 if threads is None else prod(axis.extent for axis in threads.axes)
    if count == block:
        return (*found, Sync("barrier", (0,)))
    if count == 32 and _is_warp(op):
        return (*found, Sync("warp", (0xFFFFFFFF,)))
    if count == 1:
        return tuple(found)
    raise _unknown(op, "joins some of the threads")


def _is_warp(op: amir.Fence) -> bool:
    """Tests whether 32 threads are a warp."""
    assert op.origin.threads is not None
    last = op.origin.threads.axes[-1]
    below = [axis for axis in op.origin.threads.axes if axis.pitch % 32]
    return last.pitch == 1 and last.extent == 32 and below == [last]


def _unknown(op: amir.Fence | amir.Arrive | amir.Await, why: str) -> NotValidatedError:
    return refusal_of(f"line {op.origin.span.line}: `{op.origin.text}` {why}, not validated yet")
