"""Verdicts that are kept on disk: found there, or made and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from exogpu.pipeline import cache
from exogpu.pipeline.stages import Stages
from exogpu.result import entries
from exogpu.result.verdict import Policy, Verdict
from exogpu.solvers.workers import cuts


def kept(
    stages: Stages,
    policy: Policy,
    sizes: Mapping[str, int] | None,
    make: Callable[[], Verdict],
) -> Verdict:
    """The verdict from the cache; else it is made, and kept if it is the same on every machine.

    It is not where the time or the memory ran out, of the check or of a part of it, or where
    exogpu's files have changed since the process read them.
    """
    key = None if stages.ir is None else cache.key(stages.ir, policy, sizes)
    if key is None:
        return make()
    found = cache.load(key)
    if found is not None:
        return found
    before = cuts()
    verdict = make()
    if verdict.word != "error" and cuts() == before and entries.unchanged():
        cache.store(key, verdict)
    return verdict
