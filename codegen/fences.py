"""Fences of a kernel as text, and how the threads of a statement meet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from exogpu.analysis.tiling import Tiling
from exogpu.codegen import sync
from exogpu.codegen import where as place
from exogpu.codegen.errors import unsupported
from exogpu.codegen.expressions import c_atom, c_control
from exogpu.codegen.lines import Lines
from exogpu.codegen.named import LAST, adjacent_lanes, lanes_of
from exogpu.codegen.row import Scope
from exogpu.codegen.where import Where
from exogpu.ir.nodes import Fence, Stmt

if TYPE_CHECKING:
    from exogpu.codegen.device import Device


def fence(device: Device, stmt: Fence) -> Lines:
    """A Fence: what its timelines ask for, then the barrier of its scope."""
    if stmt.launches:
        return sync.emit(sync.launch_row(stmt.post, tma=bool(device.maps)))
    tiling = device.facts.scope[stmt]
    assert tiling is not None
    reason = sync.unkept(stmt.pre, stmt.post)
    if reason is not None:
        raise unsupported(f"a Fence whose {reason.what}", stmt.span, reason.help, "G803")
    scope = sync.scope_of(tiling)
    lines: Lines = []
    if stmt in device.barriers.turns.waiting:
        lines += sync.emit("await cluster")
    rows = sync.fence_rows(stmt.pre, stmt.post, scope, by_role=device.path.by_role)
    if _others_fence(device, scope, tiling):
        rows = [row for row in rows if row != "proxy fence"]
    return [*lines, *joined(device, stmt, rows)]


def joined(device: Device, stmt: Stmt, rows: Iterable[str]) -> Lines:
    """The rows of a Fence, by the threads of a statement."""
    place_of = where(device, stmt)
    tiling = place_of.tiling
    lines: Lines = []
    for key in rows:
        match key:
            case "fence warps" if (found := device.named.of(tiling)) is not None:
                number = c_control(found.number, device.control)
                lines += sync.emit(key, id=number, threads=found.threads)
            case "fence lanes" if (lanes := adjacent_lanes(tiling)) is not None:
                lines += sync.emit(key, mask=hex((1 << lanes) - 1), lanes=lanes)
            case "fence lanes":
                some = lanes_of(tiling)
                first = c_atom(some.first, device.control)
                lines += sync.emit("fence some lanes", mask=hex(some.pattern), first=first)
            case "fence warps":
                raise unsupported(
                    f"the Fences of this kernel, each of some warps of the CTA, need more than the "
                    f"{LAST} named barriers that there are",
                    stmt.span,
                    "fence at warp or CTA scope, or signal mbarriers",
                    "G803",
                )
            case _:
                lines += place.emit(key, place_of)
    return lines


def _others_fence(device: Device, scope: Scope, tiling: Tiling) -> bool:
    """Tests whether every thread with accesses of the generic proxy executes the Fence on another
    path: in a CTA alone, all of its threads do."""
    alone = scope is Scope.CTA and tiling.cluster_dim == 1
    return alone and device.path.by_role and device.path.group not in device.proxies.groups


def where(device: Device, stmt: Stmt) -> Where:
    """Returns the place at which the rows of a statement are emitted."""
    tiling = device.facts.scope[stmt]
    assert tiling is not None
    path = device.path
    warps = (path.first, path.first + path.count) if path.by_role else None
    return Where(tiling, warps, device.proxies)
