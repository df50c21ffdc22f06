"""Procedures that were proved, and moved: the proof holds of them as it did, its lines are others.

The entry that is kept on disk has the digest of the procedure with its lines counted from its first
one, and says nothing but that it was proved, and how much that took.
"""

from __future__ import annotations

import hashlib
import json

from exogpu.ir.digest import digest
from exogpu.pipeline import cache
from exogpu.pipeline.stages import Stages
from exogpu.result import entries
from exogpu.result.verdict import Policy, Verdict

SUFFIX = ".moved"


def proved(stages: Stages, policy: Policy) -> Verdict | None:
    """Returns a verdict, without the proof, if the cache has only that of the same procedure on
    other lines, and that one is proved for all sizes."""
    if stages.ir is None or (exact := cache.key(stages.ir, policy, None)) is None:
        return None
    if entries.read(exact, cache.SUFFIX) is not None:
        return None
    key = _key(stages, policy)
    if key is None or entries.read(key, SUFFIX) is None:
        return None
    return Verdict(stages.name, "proved", None, policy, 0.0, cached=True)


def keep(stages: Stages, verdict: Verdict) -> None:
    """Keeps that a procedure is proved for all sizes, with nothing more to say."""
    if verdict.word != "proved" or verdict.sizes is not None or verdict.warnings:
        return
    if verdict.proof is None or not verdict.proof.complete or not entries.unchanged():
        return
    key = _key(stages, verdict.policy)
    if key is None or entries.read(key, SUFFIX) is not None:
        return
    where = entries.write(key, SUFFIX, b"proved")
    if where is not None:
        entries.forget(where, SUFFIX, cache.MOST)


def _key(stages: Stages, policy: Policy) -> str | None:
    decider = entries.own_files()
    program = None if stages.ir is None else digest(stages.ir, from_first_line=True)
    if program is None or decider is None:
        return None
    parts = ["moved", program, policy.value, entries.tools(), decider]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
