"""What a reader and a tool see of verdicts: text, JSON, SARIF and JUnit XML."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from io import StringIO
from xml.etree import ElementTree

import pytest
from rich.console import Console

from exogpu.cli.exit_handler import Outcome, exit_status
from exogpu.cli.output_formats import json_text, junit_text, sarif_text
from exogpu.diagnostics.codes import CODES
from exogpu.diagnostics.errors import Diagnostic, Note, Span
from exogpu.diagnostics.hazards import Hazard, HazardKind, Occurrence
from exogpu.diagnostics.verdict import Policy, Redundancy, Verdict
from exogpu.explain.requirement_hazards import hazard_of_divergence
from exogpu.report.render_verdict import (
    ROLES,
    console,
    draw_code,
    draw_diagnostics,
    draw_hazard,
    draw_verdict,
    wrapped,
)

DECLARED = Span("k.py", 3, 5, 3, 16, "    A: f32[8] @ DRAM")
ACCESS = Span("k.py", 5, 9, 5, 13, "    x = A[k] + 1")
BOUNDS = Diagnostic("B601", "k may be 8", ACCESS, "guard it", (Note("declared here", DECLARED),))

SAFE = Verdict("gemm", "proved", {"M": 512, "N": 8}, Policy.PTX, 1.25, operations=1_234_567)
PROVED = Verdict("gemm", "proved", None, Policy.PAPER, 0.5, assumptions=("M >= 1",))
UNDECIDED = Verdict("gemm", "undecided", None, Policy.PTX, 0.5, reason="no ranks")
ERROR = Verdict("gemm", "error", None, Policy.PTX, 0.0, diagnostics=(BOUNDS,))
HAZARD = Hazard(
    code="H701",
    kind=HazardKind.RAW,
    variable="A",
    index=(0, 3),
    sizes={"M": 512},
    task=2,
    first=Occurrence(
        DECLARED, "A[...] = 0", "tmaS", "thread 0 of CTA 1", (("k", 4),), access="TMA load"
    ),
    second=Occurrence(ACCESS, "x = A[k] + 1", "cuda2", "threads 0-127", (("k", 5), ("wg", 1))),
    message="no Fence or Arrive follows",
    help="add Fence(a, b)",
    replayed=True,
)
REFUTED = Verdict("gemm", "refuted", {"M": 512}, Policy.PTX, 0.5, hazards=(HAZARD,))
ALL = [Outcome(ACCESS, v) for v in (SAFE, PROVED, UNDECIDED, ERROR, REFUTED)]

# The fields that tools may rely on.
FIELDS = [
    "proc",
    "verdict",
    "sizes",
    "assumptions",
    "policy",
    "seconds",
    "obligations",
    "condition",
    "vacuous",
    "redundant",
    "reason",
    "hazards",
]
HAZARD_FIELDS = [
    "code",
    "kind",
    "variable",
    "index",
    "sizes",
    "task",
    "first",
    "second",
    "replayed",
]
SITE_FIELDS = ["line", "column", "text", "timeline", "threads", "iteration"]


def test_diagnostic_shows_both_lines_with_carets_under_the_spans():
    assert draw_diagnostics([BOUNDS]).plain == (
        "k.py:5:9: error B601: k may be 8\n"
        "      5 |     x = A[k] + 1\n"
        "        |         ^^^^\n"
        "  k.py:3:5: note: declared here\n"
        "      3 |     A: f32[8] @ DRAM\n"
        "        |     ^^^^^^^^^^^\n"
        "  remedy: guard it\n"
    )


def test_carets_stand_right_after_tabs_and_wide_characters():
    span = Span("k.py", 1, 4, 1, 6, "\t宽 ab")  # tab, one double-width character, a blank
    assert draw_diagnostics([replace(BOUNDS, span=span, notes=())]).plain.splitlines()[1:3] == [
        "      1 |     宽 ab",
        "        |        ^^",
    ]


def test_span_of_several_lines_is_underlined_to_the_end_of_its_first():
    span = Span("k.py", 1, 5, 3, 2, "x = f(a,")
    assert draw_diagnostics([replace(BOUNDS, span=span)]).plain.splitlines()[2].count("^") == 4


def test_diagnostics_come_in_source_order_and_once():
    other = replace(BOUNDS, span=DECLARED, notes=())
    drawn = draw_diagnostics([BOUNDS, other, BOUNDS]).plain
    assert drawn.count("error B601") == 2
    assert drawn.startswith("k.py:3:5")


def test_headlines_never_blur():
    assert draw_verdict(SAFE).plain == (
        "gemm: safe at M=512, N=8 (1,234,567 operations in 1.25 s, policy ptx)\n"
    )
    # Only a verdict without sizes speaks of all sizes.
    assert draw_verdict(PROVED).plain == (
        "gemm: proved for all sizes, assuming M >= 1 (0.50 s, policy paper)\n"
    )
    assert "undecided for all sizes" in draw_verdict(UNDECIDED).plain
    assert "no ranks" in draw_verdict(UNDECIDED).plain
    assert draw_verdict(ERROR).plain.startswith("gemm: not checked: 1 error\n")
    assert draw_verdict(REFUTED).plain.startswith("gemm: refuted at M=512")
    # A refutation is at some sizes, never "for all sizes".
    assert draw_verdict(replace(REFUTED, sizes=None)).plain.startswith("gemm: refuted (0.50 s")


def test_hazard_shows_all_it_knows():
    assert draw_hazard(HAZARD).plain == (
        "hazard H701 RAW on A[0, 3] at M=512, task 2\n"
        "  k.py:3:5: the write\n"
        "      3 |     A: f32[8] @ DRAM\n"
        "        |     ^^^^^^^^^^^\n"
        "        TMA load (tmaS) by thread 0 of CTA 1, at k = 4\n"
        "  k.py:5:9: the read that may not see it\n"
        "      5 |     x = A[k] + 1\n"
        "        |         ^^^^\n"
        "        by threads 0-127, at k = 5, wg = 1\n"
        "  missing: no Fence or Arrive follows\n"
        "  repair: add Fence(a, b)\n"
        "  replayed on the abstract machine at these sizes\n"
    )
    assert set(ROLES) == set(HazardKind)


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}])
def test_colours_only_on_a_terminal_that_wants_them(environment):
    def shown(terminal):
        file = StringIO()
        env = {"TERM": "xterm-256color", **environment}
        Console(file=file, force_terminal=terminal, _environ=env).print(draw_verdict(REFUTED))
        return file.getvalue()

    assert "\x1b[" not in shown(False)
    # NO_COLOR forbids colours; bold is allowed.
    assert ("\x1b[1;31m" in shown(True)) == (not environment)


def test_json_has_every_promised_field():
    elements = json.loads(json_text(ALL))
    assert [e["verdict"] for e in elements] == ["proved", "proved", "undecided", "error", "refuted"]
    for element in elements:
        assert set(FIELDS) <= set(element)
    assert [e["sizes"] for e in elements[:2]] == [{"M": 512, "N": 8}, "all"]
    (hazard,) = elements[-1]["hazards"]
    assert set(HAZARD_FIELDS) <= set(hazard)
    for site in (hazard["first"], hazard["second"]):
        assert set(SITE_FIELDS) <= set(site)
    assert hazard["second"]["iteration"] == {"k": 5, "wg": 1}
    assert elements[3]["diagnostics"][0]["code"] == "B601"


def test_sarif_has_a_failure_for_each_finding_and_an_open_result_for_undecided():
    log = json.loads(sarif_text(ALL, "1.0"))
    (run,) = log["runs"]
    assert log["version"] == "2.1.0"
    kinds = [(result["ruleId"], result["kind"], result["level"]) for result in run["results"]]
    # Only results of kind `fail` may have a level (SARIF 2.1.0, 3.27.10).
    assert kinds == [
        ("undecided", "open", "none"),
        ("B601", "fail", "error"),
        ("H701", "fail", "error"),
    ]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {k[0] for k in kinds}
    place = run["results"][1]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "k.py"
    assert place["region"] == {"startLine": 5, "startColumn": 9, "endLine": 5, "endColumn": 13}


def test_junit_counts_each_verdict_as_what_it_is():
    bad = replace(ERROR, diagnostics=(replace(BOUNDS, message="a \x00 byte"),))
    suite = ElementTree.fromstring(junit_text([*ALL, Outcome(ACCESS, bad)]))[0]
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "6", "failures": "1", "errors": "2", "skipped": "1"}
    children = [[child.tag for child in case] for case in suite]
    assert children == [[], [], ["skipped"], ["error"], ["failure"], ["error"]]


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [
        ([], 0),
        ([SAFE, PROVED], 0),
        ([SAFE, UNDECIDED], 3),
        ([UNDECIDED, REFUTED, SAFE], 1),
        ([UNDECIDED, REFUTED, ERROR], 2),
    ],
)
def test_exit_status_is_the_first_of_2_1_3(verdicts, status):
    assert exit_status(Outcome(ACCESS, verdict) for verdict in verdicts) == status


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_is_explained(code):
    entry = CODES[code]
    assert entry.title and not entry.title.endswith(".")
    assert len(entry.explanation.split()) >= 4
    # A bad example, then what to write instead.
    assert "repair" in entry.example, code
    assert code in draw_code(code, entry).plain


# --- what goes with a verdict -------------------------------------------------------------


def test_the_broken_link_stands_between_what_is_missing_and_the_repair():
    told = replace(HAZARD, link="ordered up to Await at line 4 by thread 0; nobody orders it")
    after, before = draw_hazard(told).plain.index("chain: "), draw_hazard(HAZARD).plain
    assert draw_hazard(told).plain[after:].splitlines()[:2] == [
        "chain: ordered up to Await at line 4 by thread 0; nobody orders it",
        "  repair: add Fence(a, b)",
    ]
    assert "chain: " not in before


def test_the_safe_sizes_come_after_the_hazards():
    text = draw_verdict(replace(REFUTED, condition="K mod 32 = 0")).plain
    assert text.endswith(
        "replayed on the abstract machine at these sizes\n\nsafe iff K mod 32 = 0\n"
    )


def test_redundant_synchronisation_is_drawn_at_its_lines():
    delete = Redundancy("delete", (DECLARED, ACCESS), ("Arrive(a) >> z", "Await(z, b)"))
    weaken = Redundancy("weaken", (ACCESS,), ("Fence(a, b)",), "Fence(a, c)")
    text = draw_verdict(replace(PROVED, redundant=(delete, weaken))).plain
    assert text.splitlines()[1:] == [
        "  each of these 2 holds alone: apply one, then check again",
        "  k.py:3:5: redundant",
        "      3 |     A: f32[8] @ DRAM",
        "        |     ^^^^^^^^^^^",
        "  k.py:5:9: redundant",
        "      5 |     x = A[k] + 1",
        "        |         ^^^^",
        "  these can be left out together",
        "  k.py:5:9: stronger than needed",
        "      5 |     x = A[k] + 1",
        "        |         ^^^^",
        "  enough: Fence(a, c)",
    ]
    saving, useless = replace(delete, saves=("__syncthreads();",)), replace(weaken, saves=())
    text = draw_verdict(replace(PROVED, redundant=(saving, useless))).plain
    assert "  saves: __syncthreads();" in text and "  no emitted instruction fewer" in text
    assert "can be left out or weakened" in draw_verdict(replace(PROVED, redundant=())).plain
    assert "weakened" not in draw_verdict(PROVED).plain


def test_json_of_condition_and_redundant():
    weaken = Redundancy("weaken", (ACCESS,), ("Fence(a, b)",), "Fence(a, c)")
    verdict = replace(REFUTED, condition="K = 1", redundant=(weaken,))
    (element,) = json.loads(json_text([Outcome(ACCESS, verdict)]))
    assert element["condition"] == "K = 1"
    place = {"file": "k.py", "line": 5, "column": 9, "text": "Fence(a, b)"}
    expected = {"kind": "weaken", "statements": [place], "replacement": "Fence(a, c)"}
    expected["saves"] = None
    assert element["redundant"] == [expected]


def test_a_hazard_of_no_variable_has_no_on():
    found = Diagnostic("H730", "DIVERGENCE: it needs a whole warp", ACCESS, "move it")
    lines = draw_hazard(hazard_of_divergence(found, {})).plain.splitlines()
    assert lines[0] == "hazard H730 DIVERGENCE"
    assert "  missing: it needs a whole warp" in lines


def test_a_site_may_say_its_own_role():
    told = replace(HAZARD, second=replace(HAZARD.second, role="the Arrive that it waits for"))
    text = draw_hazard(told).plain
    assert "k.py:5:9: the Arrive that it waits for\n" in text and "k.py:3:5: the write\n" in text


def test_sentences_are_as_wide_as_the_terminal(monkeypatch):
    """Lines of source are not broken, nor is anything in a pipe."""
    long = replace(HAZARD, message="the read waits for nothing " * 8, help="a fence " * 20)
    told = draw_hazard(long)
    narrow = wrapped(told, 60).plain
    assert narrow.split() == told.plain.split()
    begins = narrow.index("  missing: ")
    assert max(map(len, narrow[begins:].splitlines())) <= 60
    assert narrow[:begins] == told.plain[: told.plain.index("  missing: ")]
    after = narrow[begins:].splitlines()
    assert after[0].startswith("  missing: the read") and after[1].startswith("    ")
    assert wrapped(told, 1000).plain == told.plain
    for terminal in (True, False):
        monkeypatch.setenv("COLUMNS", "60")
        file = StringIO()
        shown = console()
        shown.file, shown._force_terminal = file, terminal
        shown.print(told, end="")
        found = re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue())
        assert found == (narrow if terminal else told.plain)
    remedy = draw_diagnostics([replace(BOUNDS, help="guard it, " * 12)])
    assert max(map(len, wrapped(remedy, 60).plain.splitlines()[-3:])) <= 60
