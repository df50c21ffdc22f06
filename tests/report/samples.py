"""Small procedures and hand-made proofs: what a report shows must not depend on the prover."""

from __future__ import annotations

from dataclasses import replace

from exogpu import schedule
from exogpu.amir.lower_arguments import statement_text
from exogpu.api import Procedure, proc
from exogpu.diagnostics.hazards import HazardKind, Occurrence
from exogpu.diagnostics.verdict import Answered, Link, Obligation, Policy, Proof, Verdict
from exogpu.ir.nodes import Assign, Fence, Stmt
from exogpu.ir.walk import walk

HOSTILE = "</script><img src=x onerror=\"document.title='bad'\"> & 'quoted' 漢字 Ω"


def make_reverse(name: str, fenced: bool):
    """With the fence that the read needs, or without; the last fence is one too many."""

    @proc(name=name)
    def reverse(M: size, x: f32[M, 64] @ CudaGmemLinear, y: f32[M, 64] @ CudaGmemLinear):
        """Reverses rows. </script><img src=x onerror="document.title='bad'"> & 'quoted' 漢字 Ω"""
        assert M % 2 == 0
        with CudaDeviceFunction(blockDim=64):
            for m in cuda_tasks(0, M):
                tile: f32[64] @ CudaSmemLinear  # <b>a comment & "quotes"</b>
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    tile[t] = x[m, t]
                if fenced:
                    Fence(cuda_in_order, cuda_in_order)
                for t in cuda_threads(0, 64, unit=cuda_thread):
                    y[m, t] = tile[63 - t]
                Fence(cuda_in_order, cuda_in_order)
                Fence(cuda_in_order, cuda_in_order)

    return reverse


reverse = make_reverse("reverse", True)
hazardous = make_reverse("hazardous", False)
assert reverse.ir is not None
hostile = Procedure(HOSTILE, replace(reverse.ir, name=HOSTILE), ())


@proc
def two_loops(n: size, x: f32[n] @ DRAM):
    assert n % 4 == 0
    for i in seq(0, n):
        x[i] = 2


tiled = schedule.divide_loop(two_loops, "i", 4, ["outer_iterator", "inner_iterator"])
"""A procedure that was derived."""


def proof_of(procedure: Procedure, copies: int = 1) -> Proof:
    """RAW and WAR over the first fence, FREE over the second, none over the third; as often as
    asked."""
    stmts = list(walk(procedure.facts.proc.body))
    write, read = (s for s in stmts if isinstance(s, Assign))
    between, after, _ = (s for s in stmts if isinstance(s, Fence))
    found = []
    for copy in range(copies):
        suffix = f"-{copy}" if copies > 1 else ""
        found += [
            _answered(f"raw{suffix}", HazardKind.RAW, write, read, (between,)),
            _answered(f"war{suffix}", HazardKind.WAR, read, write, (after, between)),
            _answered(f"free{suffix}", HazardKind.FREE, read, write, (after,)),
        ]
    return Proof(tuple(found), 0.1, 0.2)


def _answered(
    name: str, kind: HazardKind, first: Stmt, second: Stmt, fences: tuple[Stmt, ...]
) -> Answered:
    links = [("access", first), *(("fence", f) for f in fences), ("access", second)]
    chain = tuple(Link(role, s.span, statement_text(s), (("m", "m'"),), "") for role, s in links)
    obligation = Obligation(
        name=name,
        kind=kind,
        variable="tile",
        first=_site(first),
        second=_site(second),
        claim=f"No {kind.value}, whatever {HOSTILE} says.",
        chains=(chain,),
        smt="(check-sat)",
    )
    return Answered(obligation, "z3 5.4.0", "unsat", 0.003)


def _site(stmt: Stmt) -> Occurrence:
    return Occurrence(stmt.span, statement_text(stmt), "cuda2", "thread t")


def verdict_of(procedure: Procedure, proof: Proof | None) -> Verdict:
    """Proved for all sizes."""
    return Verdict(procedure.name, "proved", None, Policy.PTX, 0.5, proof=proof)
