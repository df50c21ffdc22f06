"""Verdicts on disk: what was decided of a procedure is not decided again.

The name of an entry is the digest of all that determines a verdict: the procedure as it was read,
the policy, the sizes, and the program that decides.  It is JSON, which executes nothing: what is of
another shape is no entry.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Final

from exogpu.diagnostics import disk_cache
from exogpu.diagnostics.codec import UnreadableError, decode, encode
from exogpu.diagnostics.verdict import Policy, Verdict
from exogpu.ir.digest import digest
from exogpu.ir.nodes import Proc
from exogpu.pipeline.stages import Stages
from exogpu.solvers.processes import cuts

MOST: Final = 4096
"""Entries that are kept; of more, those written first go."""

SUFFIX: Final = ".verdict"


def verdict_key(proc: Proc, policy: Policy, sizes: Mapping[str, int] | None) -> str | None:
    """Returns the digest of everything that determines the verdict on a procedure; None if that is
    not known."""
    program, decider = digest(proc), disk_cache.own_files()
    if program is None or decider is None:
        return None
    given = None if sizes is None else list(sizes.items())
    parts = [program, policy.value, given, disk_cache.tools(), decider]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def load(entry: str) -> Verdict | None:
    """The verdict of a key; None where there is none that can be read."""
    start = perf_counter()
    text = disk_cache.read_entry(entry, SUFFIX)
    if text is None:
        return None
    try:
        verdict = decode(Verdict, json.loads(text))
    except (ValueError, UnreadableError, RecursionError):
        return None
    assert isinstance(verdict, Verdict)
    return replace(verdict, seconds=perf_counter() - start, cached=True)


def store(entry: str, verdict: Verdict) -> None:
    """Writes the verdict of a key.  A folder that cannot be written is left alone."""
    where = disk_cache.write(entry, SUFFIX, json.dumps(encode(verdict)).encode())
    if where is not None:
        disk_cache.forget(where, SUFFIX, MOST)


# Verdicts that are kept on disk: found there, or made and written.


def cached_verdict(
    stages: Stages,
    policy: Policy,
    sizes: Mapping[str, int] | None,
    make: Callable[[], Verdict],
) -> Verdict:
    """The verdict from the cache; else it is made, and kept if it is the same on every machine.

    It is not where the time or the memory ran out, of the check or of a part of it, or where
    exogpu's files have changed since the process read them.
    """
    key = None if stages.ir is None else verdict_key(stages.ir, policy, sizes)
    if key is None:
        return make()
    found = load(key)
    if found is not None:
        return found
    before = cuts()
    verdict = make()
    if verdict.word != "error" and cuts() == before and disk_cache.unchanged():
        store(key, verdict)
    return verdict


# Procedures that were proved, and moved: the proof holds of them as it did, its lines are others.
#
# The entry that is kept on disk has the digest of the procedure with its lines counted from its
# first one, and says nothing but that it was proved, and how much that took.

MOVED_SUFFIX = ".moved"


def proved(stages: Stages, policy: Policy) -> Verdict | None:
    """Returns a verdict, without the proof, if the cache has only that of the same procedure on
    other lines, and that one is proved for all sizes."""
    if stages.ir is None or (exact := verdict_key(stages.ir, policy, None)) is None:
        return None
    if disk_cache.read_entry(exact, SUFFIX) is not None:
        return None
    key = _key(stages, policy)
    if key is None or disk_cache.read_entry(key, MOVED_SUFFIX) is None:
        return None
    return Verdict(stages.name, "proved", None, policy, 0.0, cached=True)


def keep(stages: Stages, verdict: Verdict) -> None:
    """Keeps that a procedure is proved for all sizes, with nothing more to say."""
    if verdict.word != "proved" or verdict.sizes is not None or verdict.warnings:
        return
    if verdict.proof is None or not verdict.proof.complete or not disk_cache.unchanged():
        return
    key = _key(stages, verdict.policy)
    if key is None or disk_cache.read_entry(key, MOVED_SUFFIX) is not None:
        return
    where = disk_cache.write(key, MOVED_SUFFIX, b"proved")
    if where is not None:
        disk_cache.forget(where, MOVED_SUFFIX, MOST)


def _key(stages: Stages, policy: Policy) -> str | None:
    decider = disk_cache.own_files()
    program = None if stages.ir is None else digest(stages.ir, from_first_line=True)
    if program is None or decider is None:
        return None
    parts = ["moved", program, policy.value, disk_cache.tools(), decider]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
