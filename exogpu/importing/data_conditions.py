"""Writes conditions that are no affine expressions as flags in memory, with any values.

A flag has a value for each program, and for each iteration in which its condition may differ.  What
is proved holds for all values of all flags, so also for those that the kernel computes.  What is
refuted need not be wrong: the kernel may never compute such values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from exogpu.diagnostics.errors import Span
from exogpu.hw.memories import CudaGmemLinear
from exogpu.importing import role_events
from exogpu.importing.mbarrier_rings import steps
from exogpu.importing.polynomial_values import Condition, negation
from exogpu.importing.refusals import unsupported
from exogpu.importing.role_events import WITHIN
from exogpu.importing.value_proofs import is_steady
from exogpu.ir import nodes as ir
from exogpu.ir.types import DataType, Sym


@dataclass(slots=True)
class Flags:
    """The flags of a procedure, by condition: the parameters with their values."""

    known: dict[Condition, ir.DataParam] = field(default_factory=dict)

    def guard_by_flag(
        self, holds: Condition, around: Sequence[tuple[Sym, ir.CExpr]], body: ir.Block, span: Span
    ) -> ir.Stmt:
        """Returns the body where a condition holds; `around` are the tasks and loops around it."""
        opposite = negation(holds)
        which, true = (opposite, 0) if opposite in self.known else (holds, 1)
        varied = [one for one in around if _may_vary(which, one[0])]
        if which not in self.known:
            shape = (*(extent for _, extent in varied), ir.Int(1))
            name = Sym(f"flag{len(self.known)}")
            param = ir.DataParam(name, DataType.I32, shape, CudaGmemLinear, span=span)
            self.known[which] = param
        param = self.known[which]
        value = Sym(param.name.name.replace("flag", "holds"))
        points = (*(ir.Point(ir.CVar(name)) for name, _ in varied), ir.Point(ir.Int(0)))
        test = ir.Compare("==", ir.CVar(value), ir.Int(true), span)
        inside = (ir.If(test, body, span=span),)
        mode = ir.Loaded(ir.Access(param.name, points, span))
        return ir.For(value, ir.Int(0), ir.Int(2), mode, inside, span=span)


def _may_vary(holds: Condition, name: Sym) -> bool:
    """Returns whether a condition may differ in the iterations of a loop; in tasks each may."""
    if str(name).startswith(WITHIN):
        return False
    return not str(name).startswith("turn_") or not is_steady(holds, str(name))


def joined(first: ir.Stmt, second: ir.Stmt) -> ir.Stmt | None:
    """Returns two statements under one flag as one; None where they are under others."""
    match first, second:
        case (
            ir.For(mode=ir.Loaded(one), body=(*before, ir.If() as last)),
            ir.For(mode=ir.Loaded(other), body=(ir.If(ir.Compare() as test) as then,)),
        ) if (one.name, one.coords) == (other.name, other.coords):
            holds = replace(test, left=ir.CVar(first.iterator))
            if holds != last.condition:
                return replace(first, body=(*first.body, replace(then, condition=holds)))
            inner = joined(last.body[-1], then.body[0]) if len(then.body) == 1 else None
            body = (*last.body, *then.body) if inner is None else (*last.body[:-1], inner)
            return replace(first, body=(*before, replace(last, body=body)))
        case _:
            return None


def refuse_counted_groups(items: Sequence[role_events.Item], step: role_events.Step) -> None:
    """Raises RefusedError (K104) where a group is committed under a flag and a wait counts groups.

    A group that is not committed is an empty one to waits for all groups, but not to others.
    """
    for other in steps(items):
        pending = _pending(step.event, other.event) if other.role == step.role else 0
        if pending:
            raise unsupported(
                "a group is committed under a condition that is data, and "
                f"line {other.span.line} waits for all groups but {pending}",
                "wait for all groups there, or commit a group in any case",
                step.span,
            )


def _pending(commit: role_events.Event, wait: role_events.Event) -> int:
    """The groups that a wait leaves under way, if it waits for groups of this kind."""
    match commit, wait:
        case (
            (role_events.TmaStore(), role_events.TmaStoreWait(pending=pending))
            | (role_events.Dot(), role_events.DotWait(pending=pending))
            | (role_events.AsyncCommit(), role_events.AsyncWait(pending=pending))
        ):
            return pending
        case _:
            return 0
