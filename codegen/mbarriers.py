"""Lays out an mbarrier variable: a ring of hardware mbarriers in each CTA.

The model counts the Arrives and Awaits of each element anew in every task; a hardware mbarrier
counts phases for as long as the kernel runs.  Each thread keeps, for each variable, how often it
has arrived and how often it has awaited since the kernel began.  The invariant that makes this
enough: at every Free as many Arrives as Awaits have been executed on each element (BARRIER
balance), all of them are ordered before what any thread of the cluster does next (the check of the
Free), and all Arrives, as all Awaits, of an element are executed by the same threads (checked here;
or, where several roles arrive on it, or await it, each phase by one of them, all threads count what
each of them does, see `exogpu.codegen.shared_counting`).  So all running totals agree on the number
of the next task's first arrival.  Arrival number r, counted over all tasks, is phase r / depth of
mbarrier r % depth; its parity is r / depth % 2.  An Await with skip m waits for its own number - m,
and not at all for the first m of a task, or, where the variable resides from task to task (decision
`resident-memory`), of the kernel: then the model counts on as the hardware does.  When it waits,
phase r / depth - 1 of the mbarrier is over, in an earlier task or, as PHASE (iii) says, because it
was awaited depth Awaits ago, here by the same thread or by one that it follows; PHASE (ii) says
that phase r / depth + 1 is not.  Where several roles await an element its ring is as deep as PHASE
was proved for, no deeper.

The elements along a dimension of roles (decision `shared-phases`) are one ring: each role counts
what it does on its own, all counts are those of one phase, and a phase takes the arrivals of all
roles that arrive.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from exogpu.analysis import roles as analysis_roles
from exogpu.analysis.barriers import first_home, role_of, targeting_ctas
from exogpu.analysis.facts import Facts
from exogpu.analysis.ownership import Declared, Use, distributed_dims, relation
from exogpu.analysis.ring_depth import laid_out
from exogpu.analysis.roles import NO_ROLES, Roles, first_element
from exogpu.analysis.tiling import Tiling, block_axes
from exogpu.codegen.alternating_barrier import is_uniform, one_each, takes_turns
from exogpu.codegen.names import unsupported
from exogpu.codegen.threads import parts_of
from exogpu.diagnostics.verdict import Policy
from exogpu.ir import nodes as ir
from exogpu.ir.affine import constant
from exogpu.ir.types import BarrierMechanism, QualSet, QualTL, Sym
from exogpu.ir.walk import control_variables, walk
from exogpu.solvers import isl

# The CTAs of a cluster whose mbarriers an Arrive signals.

MAX_CLUSTER: Final = 8
"""CTAs of a cluster whose masks of targets fit one 64-bit constant."""


def targets(
    declared: Declared, alloc: ir.BarrierAlloc, homes: Sequence[Use], dims: Sequence[int]
) -> Mapping[ir.Arrive, tuple[int, ...]]:
    """The CTAs that each Arrive signals: each that executes it its own, beside others."""
    cluster = homes[0].where.tiling.cluster_dim
    found: dict[ir.Arrive, tuple[int, ...]] = {}
    for use in homes:
        assert isinstance(use.stmt, ir.Arrive)
        owned = _home_elements(declared, alloc, use, dims)
        masks = [1 << cta for cta in range(cluster)]
        for *element, cta in owned:
            signalled = set[tuple[int, ...]]()
            for target in use.stmt.targets:
                spans = []
                for d, at in zip(dims, element, strict=True):
                    extent = constant(alloc.shape[d])
                    assert extent is not None
                    point = isinstance(target.coords[d], ir.Point)
                    spans.append((at,) if point else tuple(range(extent)))
                signalled |= set(product(*spans))
            for *other, owner in owned:
                if other != element and tuple(other) in signalled:
                    masks[cta] |= 1 << owner
        if cluster > MAX_CLUSTER and any(m != 1 << cta for cta, m in enumerate(masks)):
            raise unsupported(
                f"a multicast over more than {MAX_CLUSTER} CTAs of a cluster",
                alloc.span,
                "use smaller clusters",
                "G807",
            )
        found[use.stmt] = tuple(masks)
    return found


def _home_elements(
    declared: Declared, alloc: ir.BarrierAlloc, use: Use, dims: Sequence[int]
) -> Sequence[tuple[int, ...]]:
    """The distributed indices of each home, and the CTA that arrives there, under the conditions
    around the Arrive."""
    inside = {r.iterator for r in use.where.tiling.ranges}
    for d in dims:
        coord = use.access.coords[d]
        assert isinstance(coord, ir.Point)
        if not control_variables(coord.at) <= inside:
            raise unsupported(
                f"an index of {alloc.name} depends on more than the CTA",
                alloc.span,
                "index it by cuda_threads iterators alone",
                "G807",
            )
    size = use.where.tiling.block_dim
    made = relation(use, declared, {f"i{d}": d for d in dims}, "cta", size=size)
    pairs = made.pairs
    for name in made.params:
        pairs = isl.drop_param(pairs, name)
    return isl.points(pairs)


@dataclass(frozen=True, slots=True)
class Ring:
    """Layout and use of an mbarrier variable."""

    name: Sym
    depth: int
    skip: int
    kept: tuple[int, ...]
    """The dimensions that a CTA indexes."""
    extents: tuple[int, ...]
    warps: bool
    """Whole warps arrive: one lane of each, for all."""
    count: int
    """Arrivals that complete a phase."""
    trailing: bool
    """Instructions signal it, by bytes."""
    targets: Mapping[ir.Arrive, tuple[int, ...]]
    """By the rank of the arriving CTA, a mask of the CTAs whose mbarriers it signals."""
    remote: bool
    """Threads of other CTAs arrive on it. Bytes that other CTAs send do not count: they land in
    this CTA's memory, and the mbarrier beside them tells when."""
    before: QualSet
    """The timelines of accesses that an Arrive, or an instruction that trails, orders."""
    copies: bool
    """The Arrives order each thread's cp.async alone, and wait for none of them."""
    arrivals_shared: bool = False
    """Several roles arrive on its one element: all threads count what each does."""
    awaits_shared: bool = False
    """Several roles await it, likewise."""
    arrives_on_one: bool = False
    """Each thread arrives on one element only: it keeps one total, not one an element."""
    awaits_one: bool = False
    """Each thread awaits one element only, likewise."""
    every: bool = False
    """Each thread of the warps arrives, not one for all: a race checker follows that."""
    roles: Roles = NO_ROLES
    """The dimensions along which all elements are one mbarrier."""

    @property
    def elements(self) -> int:
        """Rings that one CTA holds."""
        return self.along(self.roles.dims)

    def along(self, without: frozenset[int]) -> int:
        """The elements that one CTA holds, without some dimensions."""
        dims = zip(self.kept, self.extents, strict=True)
        return math.prod(extent for d, extent in dims if d not in without)

    @property
    def is_power_of_two(self) -> bool:
        """Tests whether the depth is a power of two; numbers of others are counted modulo 2 *
        depth."""
        return self.depth & (self.depth - 1) == 0

    @property
    def bytes(self) -> int:
        """The size of the ring in shared memory."""
        return 8 * self.depth * self.elements


def rings(
    facts: Facts,
    proved: Mapping[str, int] | None = None,
    *,
    arrive_all: bool = False,
) -> Mapping[Sym, Ring]:
    """The ring of every mbarrier variable that is used; `proved` has depths that a proof found.
    With `arrive_all` every thread arrives by itself.

    Raises ExoGpuError (G807) for what has none.
    """
    found: dict[Sym, Ring] = {}
    for declared in facts.variables:
        alloc = declared.declaration
        if not isinstance(alloc, ir.BarrierAlloc) or not declared.uses:
            continue
        if alloc.mechanism is BarrierMechanism.MBARRIER:
            depth = facts.ring_depths[alloc.name] or (proved or {}).get(alloc.name.name)
            roles = facts.mechanisms.roles.get(alloc.name, NO_ROLES)
            found[alloc.name] = _ring(declared, alloc, depth, arrive_all, roles)
    return found


def barrier_bytes(
    launch: ir.DeviceFunction, all_rings: Mapping[Sym, Ring]
) -> tuple[Mapping[Sym, int], int]:
    """Returns the offsets of a launch's rings in shared memory, and the bytes of all of them.

    Rings never share bytes: a hardware mbarrier is initialised once.
    """
    offsets: dict[Sym, int] = {}
    at = 0
    for stmt in walk(launch.body):
        if isinstance(stmt, ir.BarrierAlloc) and stmt.name in all_rings:
            offsets[stmt.name] = at
            at += all_rings[stmt.name].bytes
    return offsets, at


def _ring(
    declared: Declared, alloc: ir.BarrierAlloc, known: int | None, arrive_all: bool, roles: Roles
) -> Ring:
    """`known` is the depth at which PHASE is to hold, None where no proof has found one."""
    arrives = [u for u in declared.uses if isinstance(u.stmt, ir.Arrive)]
    awaits = [_flat(u, roles.arriving) for u in declared.uses if isinstance(u.stmt, ir.Await)]
    trailing = [_flat(u, roles.waiting) for u in declared.uses if isinstance(u.stmt, ir.CallInstr)]
    homes = list(_homes(arrives))
    skip = _skip(alloc, homes, awaits)
    arriving = [*homes, *trailing]
    dims, kept, extents = _dimensions(declared, alloc, [*homes, *awaits, *trailing])
    single = math.prod(extents) == 1  # Where others count, there are no roles either.
    arrivals_shared = not is_uniform(declared, alloc, arriving)
    awaits_shared = not is_uniform(declared, alloc, awaits)
    if arrivals_shared or awaits_shared:
        counted = single and (known is not None or takes_turns(declared, alloc, homes, awaits))
        if arrivals_shared and (trailing or not counted or not all(map(_counts_arrival, homes))):
            raise _different(alloc, "arrive on")
        if awaits_shared and not (counted and all(map(_is_whole, awaits))):
            raise _different(alloc, "await")
    depth = laid_out(known)
    pre = [
        u.stmt.timeline.sets_under(Policy.PTX).full
        for u in arrives
        if isinstance(u.stmt, ir.Arrive)
    ]
    # An arrival that cp.async makes by itself is over when it is awaited: what an Await skips at a
    # variable's end could still be to come when the mbarrier serves another task, or none.
    copies = skip == 0 and all(full == {QualTL.SM80} for full in pre)
    warps = all(whole_warps(use.where.tiling) for use in homes) and not copies
    lanes = 32 if warps and not arrive_all else 1
    signalled = targets(declared, alloc, homes, dims)
    own = tuple(1 << cta for cta in range(declared.where.tiling.cluster_dim))
    return Ring(
        alloc.name,
        depth if awaits_shared else power_of_two(depth),
        skip,
        kept,
        extents,
        warps,
        _count(alloc, homes, roles) // lanes,
        bool(trailing),
        signalled,
        any(masks != own for masks in signalled.values()),
        frozenset().union(*pre, *map(_sources, trailing)),
        copies,
        arrivals_shared,
        awaits_shared,
        single or one_each(declared, alloc, arriving, kept),
        single or (not arrive_all and one_each(declared, alloc, awaits, kept)),
        arrive_all,
        roles,
    )


def _skip(alloc: ir.BarrierAlloc, homes: Sequence[Use], awaits: Sequence[Use]) -> int:
    """Returns the skip count of all Awaits. Raises ExoGpuError (G807) where they differ, or there
    are none."""
    if not homes or not awaits:
        raise _refuse(alloc, f"{alloc.name} has no Arrive or no Await", "remove it")
    skips = {-u.stmt.n - 1 for u in awaits if isinstance(u.stmt, ir.Await)}
    if len(skips) > 1:
        raise _refuse(
            alloc, f"the Awaits on {alloc.name} differ in their skip", "use one `~m` everywhere"
        )
    return skips.pop()


def _dimensions(
    declared: Declared, alloc: ir.BarrierAlloc, uses: Sequence[Use]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The dimensions that the CTAs of a cluster divide among them, those that each of them indexes,
    and the extents of these.  Raises ExoGpuError (G807) where an extent depends on sizes."""
    tiling = declared.where.tiling
    dims: tuple[int, ...] = ()
    if tiling.cluster_dim > 1:
        dims = distributed_dims(declared, uses, tiling.block_dim)
    kept = tuple(d for d in range(len(alloc.shape)) if d not in dims)
    extents = []
    for d in kept:
        extent = constant(alloc.shape[d])
        if extent is None:
            raise _refuse(alloc, f"the extents of {alloc.name} depend on sizes", "use constants")
        extents.append(extent)
    return dims, kept, tuple(extents)


def _flat(use: Use, dims: frozenset[int]) -> Use:
    return replace(use, access=first_element(use.access, dims))


def _count(alloc: ir.BarrierAlloc, homes: Sequence[Use], roles: Roles) -> int:
    """The arrivals of threads that complete a phase: of all roles."""
    stmts = [use.stmt for use in homes if isinstance(use.stmt, ir.Arrive)]
    of_role = role_of(stmts, roles)
    counts = {}
    for stmt, use in zip(stmts, homes, strict=True):
        targets = tuple(first_element(target, roles.waiting) for target in stmt.targets)
        threads = math.prod(axis.extent for axis in block_axes(use.where.tiling))
        counts[of_role[stmt]] = threads * targeting_ctas(targets)
    expected = [
        tuple(index.values()) for index in analysis_roles.elements(roles.arriving, alloc.shape)
    ]
    if roles.arriving and counts.keys() == {()}:
        return counts[()] * len(expected)
    if missing := [index for index in expected if index not in counts]:
        at = ", ".join(map(str, missing[0]))
        raise _refuse(alloc, f"no Arrive is on {alloc.name}[{at}]", "let each role arrive")
    return sum(counts.values())


def power_of_two(depth: int) -> int:
    """The least power of two that is no less: remainders of it cost one instruction.

    A deeper ring is right where the same threads execute all Awaits (`laid_out`).  With 8
    mbarriers in the place of 5, a product at 4096 takes 0.98 of the time.
    """
    return 1 << (depth - 1).bit_length()


def _refuse(alloc: ir.BarrierAlloc, what: str, help: str) -> Exception:
    return unsupported(what, alloc.span, help, "G807")


def _sources(use: Use) -> QualSet:
    """The timelines of a trailing instruction's operands."""
    assert isinstance(use.stmt, ir.CallInstr)
    operands = [p.operand for p in use.stmt.instr.params if isinstance(p, ir.DataParam)]
    return frozenset(o.initial for o in operands if o is not None)


def _homes(arrives: Sequence[Use]) -> Iterator[Use]:
    """One use an Arrive, of its home element."""
    seen: set[ir.Arrive] = set()
    for use in arrives:
        assert isinstance(use.stmt, ir.Arrive)
        home = first_home(use.stmt.targets)
        if use.stmt not in seen:
            seen.add(use.stmt)
            yield replace(use, access=home)


def _different(alloc: ir.BarrierAlloc, what: str) -> Exception:
    """The refusal of threads of which none could count for all."""
    return _refuse(
        alloc,
        f"different threads {what} one element of {alloc.name}, conditions aside: "
        "none of them could count for all",
        "let one collective execute them all, or give each an element of its own: "
        f"{alloc.name}[0], {alloc.name}[1]",
    )


def _counts_arrival(use: Use) -> bool:
    """Tests whether threads that do not execute this Arrive can count it: it is one phase of a
    CTA."""
    stmt = use.stmt
    one = isinstance(stmt, ir.Arrive) and len(stmt.targets) == 1
    return one and _is_whole(use) and all(isinstance(c, ir.Point) for c in use.access.coords)


def _is_whole(use: Use) -> bool:
    """Tests whether the thread loops around a use do not divide a CTA."""
    return len(parts_of(use.where.tiling).sets) == 1


def whole_warps(tiling: Tiling) -> bool:
    """Tests whether the scope consists of whole warps in each CTA."""
    axes = block_axes(tiling)
    return (
        bool(axes)
        and axes[-1].pitch == 1
        and axes[-1].extent % 32 == 0
        and all(axis.pitch % 32 == 0 for axis in axes[:-1])
        and all(divides(32 // math.gcd(32, axis.pitch), axis.offset) for axis in axes)
    )


def divides(factor: int, expr: ir.CExpr) -> bool:
    """Tests whether the expression is a multiple of `factor`, judged from its parts."""
    match expr:
        case ir.Int():
            return expr.value % factor == 0
        case ir.Add():
            return divides(factor, expr.left) and divides(factor, expr.right)
        case ir.Mul():
            return divides(factor // math.gcd(factor, expr.factor), expr.term)
        case _:
            return factor == 1
