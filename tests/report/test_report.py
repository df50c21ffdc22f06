"""What a report says: never more than was established, and with everything escaped."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from samples import HOSTILE, hazardous, hostile, proof_of, reverse, verdict_of

from exogpu.api import proc
from exogpu.diagnostics.verdict import Redundancy
from exogpu.ir.walk import walk
from exogpu.kernels.gemm_sm90 import KERNELS
from exogpu.kernels.gemv_f32 import gemv
from exogpu.report.build import build
from exogpu.report.formula import formula
from exogpu.report.markdown import markdown
from exogpu.report.memory_use import main_loop, rings_of, shared_memory_pictures, sizes_for_trips
from exogpu.report.page import html, script_json
from exogpu.report.thread_table import clusters
from exogpu.report.trace import trace

GEMM = KERNELS["gemm_sm90_2x1_256x192"]


# --- the theorem ----------------------------------------------------------------------------


def test_a_proof_speaks_of_all_sizes():
    report = build(reverse, verdict_of(reverse, proof_of(reverse)))
    assert report.theorem.startswith("For all M ≥ 1 with M % 2 == 0, the parallel kernel computes")
    assert report.badge == "proved"


def test_a_check_at_sizes_speaks_of_those_alone():
    report = build(reverse, reverse.check_at(M=2))
    assert report.theorem.startswith("At M = 2, the parallel kernel computes")
    assert report.badge == "safe at these sizes"
    assert "all" not in dict(report.facts)["Sizes"]
    assert not report.certified


def test_a_refutation_is_none_of_it():
    report = build(hazardous, hazardous.check_at(M=2))
    assert report.theorem.startswith("At M = 2 the parallel kernel may differ")
    assert "computes what" not in report.theorem


def test_an_open_question_claims_nothing():
    verdict = replace(verdict_of(reverse, None), word="undecided", reason="it is hard")
    assert build(reverse, verdict).theorem == "No answer for all sizes: it is hard."


def test_an_ill_formed_program_shows_what_is_wrong():
    @proc
    def wrong(n: size, x: f32[n] @ Nowhere):
        pass

    verdict = replace(verdict_of(reverse, None), word="error", diagnostics=wrong.diagnostics)
    report = build(reverse, verdict)
    assert report.problems and "Nowhere" in report.problems[0]
    assert "Nowhere" in html(report)


def test_atomic_sums_are_reserved():
    """Split-k adds up in any order: the claim says so."""
    from exogpu.kernels.gemm_splitk_sm90 import KERNELS as SPLIT

    kernel = SPLIT["gemm_splitk_sm90_1x1_128x256"]
    sizes = {"L": 1, "M": 1, "N": 4, "K_split": 1, "cluster_K": 4}
    assert "up to the order of sums" in build(kernel, kernel.check_at(**sizes)).theorem
    assert "up to the order of sums" not in build(reverse, reverse.check_at(M=2)).theorem


# --- obligations ----------------------------------------------------------------------------


def test_what_no_chain_passes_is_redundant():
    report = build(reverse, verdict_of(reverse, proof_of(reverse)))
    marks = {mark.number: mark for mark in report.marks}
    fences = [use for use in report.uses if marks[use.mark].kind == "fence"]
    assert [(len(use.rows), use.redundant) for use in fences] == [(2, False), (2, False), (0, True)]


def test_what_a_search_found_redundant_is_said_so():
    """It also finds what chains happen to pass."""
    verdict = verdict_of(reverse, proof_of(reverse))
    report = build(reverse, verdict)
    (first, *_) = (mark for mark in report.marks if mark.kind == "fence")
    span = next(s.span for s in walk(reverse.facts.proc.body) if s.span.line == first.line)
    found = Redundancy("delete", (span,), (first.text,))
    report = build(reverse, replace(verdict, redundant=(found,)))
    assert next(use for use in report.uses if use.mark == first.number).redundant


def test_nothing_is_redundant_without_a_complete_proof():
    """An unanswered obligation may need any statement."""
    proof = proof_of(reverse)
    first = replace(proof.answered[0], answer="unknown")
    proof = replace(proof, answered=(first, *proof.answered[1:]))
    report = build(reverse, verdict_of(reverse, proof))
    assert not any(use.redundant for use in report.uses)
    assert [row.answer for row in report.rows] == ["open", "holds", "holds"]


def test_rows_have_their_places():
    (row, *_) = build(reverse, verdict_of(reverse, proof_of(reverse))).rows
    assert row.in_words == f"fence {row.chains[0][0].place.line}"
    assert row.first.line < row.chains[0][0].place.line < row.second.line


@pytest.mark.slow
def test_statements_of_macros_are_in_the_source():
    """A GEMM's main loop stands in macros of its file: their text is shown, and marked."""
    report = build(GEMM, GEMM.check_at(L=1, M=1, N=1, cluster_K=4))
    numbers = [line.number for line in report.lines]
    assert numbers == sorted(set(numbers))
    text = {
        line.number: "".join(p.text for s in line.segments for p in s.pieces)
        for line in report.lines
    }
    assert any("Sm90_wgmma_tf32" in one for one in text.values())
    file = Path(GEMM.ir.span.file).read_text().splitlines()
    assert all(one.strip() == file[number - 1].strip() for number, one in text.items())
    marked = {mark.line for mark in report.marks}
    assert {box.line for box in report.timeline.boxes if box.kind in ("await", "arrive")} <= marked
    assert marked <= set(numbers)
    # A macro that it does not use is not shown; a procedure without macros is alone.
    assert len(numbers) < len(file) / 2 + 50
    alone = [line.number for line in build(reverse, reverse.check_at(M=2)).lines]
    assert alone == list(range(alone[0], alone[-1] + 1))


# --- the formula ----------------------------------------------------------------------------


def test_gemm_is_summarised():
    found = formula(GEMM.ir)
    assert found.text == "C[l,m,n] = sum over k of tf32(A[l,m,k]) * tf32(B[l,n,k])"
    assert "loops" in found.evidence
    assert "<mi>cluster_K</mi>" in found.html


def test_sums_that_threads_exchange_are_guessed_and_tried():
    found = formula(gemv.ir)
    assert found.text == "y[m] = sum over k of A[m,k] * x[k]"
    assert "shapes" in found.evidence


@proc
def twice(M: size, K: size, A: f32[M, K] @ DRAM, x: f32[K] @ DRAM, y: f32[M] @ DRAM):
    for m in seq(0, M):
        y[m] = 0.0
        for k in seq(0, K):
            y[m] += A[m, k] * x[k]
        y[m] = y[m] * y[m]


@proc
def shifted(N: size, x: f32[N] @ DRAM, y: f32[N] @ DRAM):
    for i in seq(0, N):
        t: f32
        t = x[i]
        if i >= 1:
            t += 1.0
        y[i] = t


@proc
def scaled(N: size, x: f32[N] @ DRAM, y: f32[N] @ DRAM):
    for i in seq(0, N):
        y[i] += 2.0 * relu(x[i])


def test_no_formula_is_shown_that_a_run_contradicts():
    """The guess from the shapes and the summary are both wrong here."""
    assert formula(twice.ir) is None
    assert formula(shifted.ir) is None


def test_accumulation_shows():
    assert formula(scaled.ir).text == "y[n] += 2.0 * relu(x[n])"


# --- drawings -------------------------------------------------------------------------------


def test_main_loop_trips():
    main = main_loop(GEMM.facts.proc)
    assert sizes_for_trips(GEMM.facts.proc, main, 1)["cluster_K"] == 4
    assert sizes_for_trips(GEMM.facts.proc, main, 3)["cluster_K"] == 68
    assert sizes_for_trips(GEMM.facts.proc, main, 0) is None


def test_awaits_know_what_releases_them():
    """The producer's Await in iteration 4 waits for the consumers' first arrivals, of both CTAs;
    those before it for nothing."""
    flat = GEMM.facts.proc
    sizes = sizes_for_trips(flat, main_loop(flat), 6)
    run = trace(GEMM.amir(), sizes)
    assert run.complete
    awaits = [e for e in run.events if e.kind == "await" and e.elements == (("empty", (0, 0)),)]
    assert [e.rank for e in awaits] == [-4, -3, -2, -1, 0, 1]
    assert [len(e.released_by) for e in awaits] == [0, 0, 0, 0, 2, 2]
    assert {e.rank for e in awaits[4].released_by} == {0}


def test_rings_use_their_slots_in_turn():
    rings = {ring.variable: ring for ring in rings_of(GEMM.facts, GEMM.amir())}
    assert (rings["full"].depth, rings["empty"].depth, rings["cg"].depth) == (5, 5, 0)
    six = next(trip for trip in rings["full"].trips if trip.trips == 6)
    assert [turn.rank for turn in six.turns] == list(range(6))
    assert all(len(turn.awaits) == 1 for turn in six.turns)


def test_shared_variables_do_not_overlap():
    (picture,) = shared_memory_pictures(GEMM.facts, {})
    assert {slab.variable: slab.slots for slab in picture.slabs} == {
        "mbarriers": 1,
        "A_smem": 4,
        "B_smem": 4,
    }
    for a, b in combinations(picture.slabs, 2):
        apart_in_time = a.x + a.width <= b.x or b.x + b.width <= a.x
        assert apart_in_time or a.offset + a.size <= b.offset or b.offset + b.size <= a.offset


def test_threads_of_the_producer_scope():
    (cluster,) = clusters(GEMM.facts.proc, GEMM.facts.collective)
    (producer,) = (s for s in cluster.scopes if s.opens == 'CudaWarps(0, 1, name="producer")')
    assert [[(bar.x, bar.width) for bar in cta] for cta in producer.ctas] == [[(0, 32)]] * 2


def test_the_failing_instance_is_in_view():
    report = build(hazardous, hazardous.check_at(M=2))
    failing = {box.failing: box for box in report.timeline.boxes if box.failing}
    assert failing["first"].line < failing["second"].line
    assert sum(arrow.broken for arrow in report.timeline.arrows) == 1


@pytest.mark.slow
def test_boxes_of_a_lane_do_not_overlap():
    report = build(GEMM, GEMM.check_at(L=1, M=1, N=1, cluster_K=4))
    for a, b in combinations(report.timeline.boxes, 2):
        assert a.y != b.y or a.x + a.width <= b.x or b.x + b.width <= a.x


# --- escaping -------------------------------------------------------------------------------


def test_everything_is_escaped():
    report = build(hostile, verdict_of(hostile, proof_of(hostile)))
    page, text = html(report), markdown(report)
    for document in (page, text):
        assert "<img" not in document.replace("\\<img", "")
        assert "漢字" in document
    assert page.count("</script>") == 2


def test_json_cannot_end_its_element():
    value = {"a": HOSTILE + "<!-- \u2028"}
    text = str(script_json(value))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == value


@pytest.mark.parametrize("name", [HOSTILE, "a`b``c", "|x|", "[a](b)"])
def test_markdown_keeps_cells_apart(name):
    """A bar or a backtick in a name does not end a cell or a code span."""
    report = build(reverse, verdict_of(reverse, proof_of(reverse)))
    rows = tuple(replace(row, variable=name) for row in report.rows)
    table = [
        line
        for line in markdown(replace(report, rows=rows)).splitlines()
        if line.startswith("| raw |")
    ]
    (line,) = table
    assert line.replace("\\|", "").count("|") == 9
