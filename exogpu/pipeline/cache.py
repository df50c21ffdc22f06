"""Verdicts on disk: what was decided of a procedure is not decided again.

The name of an entry is the digest of all that determines a verdict: the procedure as it was read,
the policy, the sizes, and the program that decides.  It is JSON, which executes nothing: what is of
another shape is no entry.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter
from typing import Final

from exogpu.ir.digest import digest
from exogpu.ir.nodes import Proc
from exogpu.result import entries
from exogpu.result.codec import UnreadableError, decode, encode
from exogpu.result.verdict import Policy, Verdict

MOST: Final = 4096
"""Entries that are kept; of more, those written first go."""

SUFFIX: Final = ".verdict"


def key(proc: Proc, policy: Policy, sizes: Mapping[str, int] | None) -> str | None:
    """Returns the digest of everything that determines the verdict on a procedure; None if that is
    not known."""
    program, decider = digest(proc), entries.own_files()
    if program is None or decider is None:
        return None
    given = None if sizes is None else list(sizes.items())
    parts = [program, policy.value, given, entries.tools(), decider]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def load(entry: str) -> Verdict | None:
    """The verdict of a key; None where there is none that can be read."""
    start = perf_counter()
    text = entries.read(entry, SUFFIX)
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
    where = entries.write(entry, SUFFIX, json.dumps(encode(verdict)).encode())
    if where is not None:
        entries.forget(where, SUFFIX, MOST)
