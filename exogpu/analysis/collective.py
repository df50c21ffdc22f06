"""Collective analysis (paper, section 4): the tiling of every scope, and what breaks its rules.

Expects windows and procedure calls to be inlined.  A mechanism whose unit is larger than its
scope is no error here: `exogpu.analysis.divergence` finds it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from exogpu.analysis.common_dimensions import TilingError
from exogpu.analysis.derive_tiling import ScopeFit, derive, derive_warps, scope_fit
from exogpu.analysis.launch import check_launch
from exogpu.analysis.thread_names import CollectiveFacts, Desugared, executors
from exogpu.analysis.threadmap import ThreadMap, threads_of
from exogpu.analysis.tiling import Tiling, block_axes, iterations, launch_tiling
from exogpu.diagnostics.errors import Diagnostic, Span
from exogpu.ir import nodes as ir
from exogpu.ir.affine import constant, difference
from exogpu.ir.types import CollUnit, Sym
from exogpu.ir.walk import blocks


def analyse(proc: ir.Proc) -> tuple[CollectiveFacts, tuple[Diagnostic, ...]]:
    """Computes the threads that execute each statement, and everything that collective analysis
    refuses.

    With diagnostics the facts are incomplete: a scope whose tiling cannot be derived is taken
    to be executed like its parent, so that the rest of the procedure is examined too.
    """
    walk = _Walk()
    walk.block(proc.body, None, None)
    facts = CollectiveFacts(walk.scope, walk.inner, walk.operands, walk.trailing)
    return facts, tuple(walk.found)


@dataclass(slots=True)
class _Walk:
    scope: dict[ir.Stmt, Tiling | None] = field(default_factory=dict)
    inner: dict[ir.For | ir.Warps | ir.DeviceFunction, Tiling] = field(default_factory=dict)
    operands: dict[tuple[ir.CallInstr, int], Desugared] = field(default_factory=dict)
    trailing: dict[ir.CallInstr, Desugared] = field(default_factory=dict)
    found: list[Diagnostic] = field(default_factory=list)
    unknown: bool = False
    """A scope around could not be made, so that the executing threads inside are unknown, too."""

    def block(
        self, block: ir.Block, tiling: Tiling | None, launch: ir.DeviceFunction | None
    ) -> None:
        for stmt in block:
            self.scope[stmt] = tiling
            self.statement(stmt, tiling, launch)

    def statement(
        self, stmt: ir.Stmt, tiling: Tiling | None, launch: ir.DeviceFunction | None
    ) -> None:
        """By default statements inherit their parent's tiling unchanged."""
        was_unknown = self.unknown
        match stmt:
            case ir.DeviceFunction():
                launch = stmt
                self.found += check_launch(stmt)
                tiling = launch_tiling(stmt.cluster_dim, stmt.block_dim)
                self.inner[stmt] = tiling
            case ir.For(mode=ir.CudaThreads(unit)) if tiling is not None:
                tiling = self.loop(stmt, unit, tiling)
                self.inner[stmt] = tiling
            case ir.Warps() if tiling is not None and launch is not None:
                tiling = self.warps(stmt, tiling, launch)
                self.inner[stmt] = tiling
            case ir.CallInstr() if tiling is not None:
                self.call(stmt, tiling)
            case ir.Assign() | ir.Reduce() if tiling is not None:
                self.scalar(stmt, tiling)
            case ir.Fence() if tiling is not None and not stmt.launches:
                self.fence(stmt, tiling)
            case _:
                pass
        for inside in blocks(stmt):
            self.block(inside, tiling, launch)
        self.unknown = was_unknown

    def loop(self, stmt: ir.For, unit: CollUnit, tiling: Tiling) -> Tiling:
        lo, hi = constant(stmt.lo), constant(stmt.hi)
        if lo is None or hi is None:
            self.refuse(
                "C408",
                f"the bounds of the cuda_threads loop over {stmt.iterator} are not constant",
                stmt.span,
                "use constants, and an `if` on the iterator for what depends on sizes",
            )
            lo, hi = 0, 1
        return self.derive_tiling(
            derive(tiling, unit, stmt.iterator, lo, max(0, hi - lo)), tiling, stmt.span
        )

    def warps(self, stmt: ir.Warps, tiling: Tiling, launch: ir.DeviceFunction) -> Tiling:
        found = derive_warps(tiling, launch.warps, stmt.group, stmt.lo, stmt.hi)
        return self.derive_tiling(found, tiling, stmt.span)

    def derive_tiling(self, found: Tiling | TilingError, parent: Tiling, span: Span) -> Tiling:
        if isinstance(found, TilingError):
            self.refuse(found.code, found.message, span, found.help)
            self.unknown = True
            return parent
        return found

    def scalar(self, stmt: ir.Assign | ir.Reduce, tiling: Tiling) -> None:
        """Decision `scalar-statements`: exactly one thread executes a scalar assignment or
        reduction."""
        if tiling.threads != 1:
            of_tiles = "; over the elements of a register tile, for m, n in fragment(tile):"
            self.refuse(
                "C413",
                f"{tiling.threads} threads execute this scalar statement: {executors(tiling)}",
                stmt.span,
                "put it inside cuda_threads(..., unit=cuda_thread), or use an instruction"
                + of_tiles * (tiling.threads in (32, 128)),
            )

    def fence(self, stmt: ir.Fence, tiling: Tiling) -> None:
        """Inside a CTA the hardware synchronises whole warps, or threads of one warp."""
        inside = ThreadMap(block_axes(tiling))
        for at in iterations(tiling):
            warps = Counter(t // 32 for t in threads_of(inside, at))
            if len(warps) == 1 or all(count == 32 for count in warps.values()):
                continue
            self.refuse(
                "C416",
                f"no barrier synchronises {executors(tiling)}: they are neither whole warps nor "
                "within one",
                stmt.span,
                "fence at warp or CTA scope",
            )
            return

    def call(self, stmt: ir.CallInstr, tiling: Tiling) -> None:
        """Calls of CUDA instructions stand at the unit-scope of the instruction."""
        instr = stmt.instr
        match scope_fit(tiling, instr.unit):
            case ScopeFit.EXACT:
                self.desugar(stmt, tiling)
            case ScopeFit.UNIT_LARGER:
                pass
            case ScopeFit.MISALIGNED:
                self.refuse(
                    "C414",
                    f"{instr.name} needs an aligned {instr.unit.name}, "
                    f"and is executed by {executors(tiling)}",
                    stmt.span,
                    "begin a warpgroup at a multiple of 4 warps, a warp at a multiple of 32 "
                    "threads: reorder the warp groups of the launch",
                )
            case ScopeFit.UNIT_SMALLER | ScopeFit.INCOMPATIBLE:
                self.refuse(
                    "C410",
                    f"{instr.name} must be called at {instr.unit.name} scope, "
                    f"and is executed by {executors(tiling)}",
                    stmt.span,
                    f"call it inside a cuda_threads loop with unit={instr.unit.name}",
                )

    def desugar(self, stmt: ir.CallInstr, tiling: Tiling) -> None:
        """Step 1 of distributed memory analysis: thread loops around each distributed operand."""
        for at, (param, argument) in enumerate(
            zip(stmt.instr.params, stmt.arguments, strict=False)
        ):
            units = param.operand.units if isinstance(param, ir.DataParam) and param.operand else ()
            if units and isinstance(argument, ir.Access):
                loops = self.loops(argument, units, param.name.name, stmt, tiling)
                if loops is not None:
                    self.operands[stmt, at] = loops
        if stmt.instr.trailing_units and stmt.trailing is not None:
            loops = self.loops(
                stmt.trailing, stmt.instr.trailing_units, "the trailing barrier", stmt, tiling
            )
            if loops is not None:
                self.trailing[stmt] = loops

    def loops(
        self,
        window: ir.Access,
        units: tuple[CollUnit, ...],
        what: str,
        stmt: ir.CallInstr,
        tiling: Tiling,
    ) -> Desugared | None:
        intervals = [c for c in window.coords if isinstance(c, ir.Interval)]
        iterators: list[Sym] = []
        extents: list[int] = []
        for unit, interval in zip(units, intervals, strict=False):
            extent = difference(interval.hi, interval.lo)
            if extent is None or extent < 0:
                self.refuse(
                    "C415",
                    f"{what} of {stmt.instr.name} is distributed over {unit.name}, "
                    "and its extent there is not constant",
                    window.span if window.span.line else stmt.span,
                    "pass a window of constant extent in the distributed dimensions",
                )
                return None
            iterator = Sym(f"{window.name.name}_{unit.name.rpartition(' ')[2].partition('(')[0]}")
            found = derive(tiling, unit, iterator, 0, extent)
            if isinstance(found, TilingError):
                self.refuse(
                    found.code,
                    f"{what} of {stmt.instr.name} cannot be distributed: {found.message}",
                    window.span if window.span.line else stmt.span,
                    found.help,
                )
                return None
            tiling = found
            iterators.append(iterator)
            extents.append(extent)
        return Desugared(tuple(iterators), tuple(extents), tiling)

    def refuse(self, code: str, message: str, span: Span, help: str) -> None:
        if self.unknown:
            return
        self.found.append(Diagnostic(code, message, span, help))
