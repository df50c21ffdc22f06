"""Procedures of test files, read but not checked."""

from __future__ import annotations

import sys
from collections.abc import Callable

from exogpu.analysis import collective, distribution
from exogpu.analysis.facts import gathered
from exogpu.analysis.inline import inline
from exogpu.analysis.thread_names import CollectiveFacts
from exogpu.diagnostics.errors import Diagnostic
from exogpu.frontend.procedures import parse_proc
from exogpu.ir.nodes import Proc


def read(function: Callable[..., object]) -> Proc:
    """The IR of a function, windows and calls inlined; it must be well-formed to the parser."""
    found, diagnostics = parse_proc(function, sys._getframe(1))
    assert found is not None, diagnostics
    return inline(found)


def collective_facts(proc: Proc) -> CollectiveFacts:
    """The facts of a procedure that collective analysis accepts."""
    facts, found = collective.analyse(proc)
    assert not found, found
    return facts


def judge(proc: Proc) -> list[Diagnostic]:
    """All that the three analyses find, in the order in which the first one that fails stops."""
    executors, found = collective.analyse(proc)
    if found:
        return list(found)
    facts = gathered(proc, executors)
    return [*distribution.check(facts), *facts.divergences]


def codes(function: Callable[..., object]) -> list[str]:
    """The codes that a function draws."""
    found, diagnostics = parse_proc(function, sys._getframe(1))
    assert found is not None, diagnostics
    return [d.code for d in judge(inline(found))]
