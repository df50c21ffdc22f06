"""Verdicts as JUnit XML, one test case a procedure, for continuous integration services."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import assert_never
from xml.etree import ElementTree

from exogpu.cli.outcome import Outcome
from exogpu.cli.render import draw_verdict, shown_path, sizes_text
from exogpu.result.verdict import Verdict

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_text(outcomes: Sequence[Outcome]) -> str:
    """A suite: refuted is a failure, an ill-formed program an error, undecided is skipped."""
    words = Counter(outcome.verdict.word for outcome in outcomes)
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        suites,
        "testsuite",
        name="exogpu",
        tests=str(len(outcomes)),
        failures=str(words["refuted"]),
        errors=str(words["error"]),
        skipped=str(words["undecided"]),
        time=f"{sum(outcome.verdict.seconds for outcome in outcomes):.6f}",
    )
    for outcome in outcomes:
        _case(suite, outcome)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, outcome: Outcome) -> None:
    verdict = outcome.verdict
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=_clean(shown_path(outcome.span.file)),
        name=_clean(_name(verdict)),
        file=_clean(outcome.span.file),
        time=f"{verdict.seconds:.6f}",
    )
    match verdict.word:
        case "proved":
            return
        case "refuted":
            child, message = "failure", "; ".join(h.message for h in verdict.hazards)
        case "error":
            child, message = "error", "; ".join(d.message for d in verdict.diagnostics)
        case "undecided":
            child, message = "skipped", verdict.reason
        case _:
            assert_never(verdict.word)
    element = ElementTree.SubElement(case, child, message=_clean(message))
    element.text = _clean(draw_verdict(verdict).plain)


def _name(verdict: Verdict) -> str:
    sizes = sizes_text(verdict.sizes) if verdict.sizes else ""
    name = verdict.proc or "(file)"
    return f"{name}[{sizes}]" if sizes else name


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
