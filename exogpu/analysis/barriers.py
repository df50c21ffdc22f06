"""Distributed memory analysis of barrier variables: who owns an element, and who it signals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from exogpu.analysis.divergence import Mechanisms
from exogpu.analysis.named_barriers import check_named
from exogpu.analysis.ownership import Declared, Use, distributed_dims
from exogpu.analysis.ownership_check import Owning, check_owners
from exogpu.analysis.roles import NO_ROLES, Roles, check_roles, first_element, point_of, wide
from exogpu.analysis.thread_names import GroupKind, executors, group_kind
from exogpu.analysis.tiling import Tiling
from exogpu.diagnostics.errors import Diagnostic, Note
from exogpu.ir import nodes as ir
from exogpu.ir.affine import constant, difference
from exogpu.ir.types import BarrierMechanism, Sym
from exogpu.ir.walk import walk


def home_of(targets: Sequence[ir.Access]) -> ir.Access | None:
    """The home of an Arrive: in each dimension the point that one of the targets has (decision
    `multicast-tags`).

    An interval of extent 1 is a point where no target names one.  None where every target has a
    wider interval in some dimension.
    """
    coords: list[ir.Coord] = []
    for several in zip(*(target.coords for target in targets), strict=True):
        points = [c for c in several if isinstance(c, ir.Point)]
        single = [p for c in several if (p := point_of(c)) is not None]
        if not single:
            return None
        coords.append((points or single)[0])
    return replace(targets[0], coords=tuple(coords))


def first_home(targets: Sequence[ir.Access]) -> ir.Access:
    """The home of an Arrive; of one for several roles, that of the first."""
    roles = frozenset.intersection(*map(wide, targets))
    home = home_of(tuple(first_element(target, roles) for target in targets))
    assert home is not None
    return home


def check_barrier(
    declared: Declared, alloc: ir.BarrierAlloc, mechanisms: Mechanisms
) -> Iterator[Diagnostic]:
    """All that distributed memory analysis refuses of one barrier variable."""
    yield from _check_guard(alloc, mechanisms)
    match alloc.mechanism:
        case BarrierMechanism.COMMIT_GROUP:
            yield from _check_commit_group(declared, mechanisms)
        case BarrierMechanism.CLUSTER_SYNC:
            yield from _check_cluster_sync(alloc)
        case BarrierMechanism.NAMED_BARRIER:
            yield from check_named(declared)
        case BarrierMechanism.MBARRIER:
            yield from _check_mbarrier(declared, mechanisms.roles.get(alloc.name, NO_ROLES))


def _check_guard(alloc: ir.BarrierAlloc, mechanisms: Mechanisms) -> Iterator[Diagnostic]:
    """Decision `barrier-guards`: guards say which mbarriers take turns."""
    if alloc.guard is None:
        return
    both = (alloc.mechanism, mechanisms.barriers.get(alloc.guard))
    if both != (BarrierMechanism.MBARRIER, BarrierMechanism.MBARRIER):
        yield Diagnostic(
            "D513",
            f"the guard {alloc.guard} of {alloc.name} is no mbarrier",
            alloc.span,
            "name the mbarrier that this one takes turns with, or remove the guard",
        )


# --- commit groups and cluster sync ---------------------------------------------------------


def _check_commit_group(declared: Declared, mechanisms: Mechanisms) -> Iterator[Diagnostic]:
    """Every index is distributed; the owner is the unit that executes Arrive and Await alike."""
    name = declared.declaration.name
    kind = mechanisms.kinds.get(name)
    for use in declared.uses:
        if isinstance(use.stmt, ir.Arrive) and (
            kind is None or group_kind(use.stmt.timeline) is not kind
        ):
            other = f"the {kind.value} groups of the others" if kind else "a commit group"
            yield Diagnostic(
                "D511",
                f"an Arrive on {use.stmt.timeline.name} does not end {other}",
                use.span,
                "arrive on one of wgmma_async, tma_to_gmem_async, tma_to_gmem_source, "
                "Sm80_cp_async; all Arrives on one variable on the same one",
                (Note("allocated here", declared.declaration.span),),
            )
            return
    allowed = (128,) if kind is GroupKind.WGMMA else (1, 32)
    for use in declared.uses:
        if use.where.tiling.threads not in allowed:
            word = "one warpgroup" if kind is GroupKind.WGMMA else "one thread or one warp"
            yield Diagnostic(
                "D516",
                f"a commit group of {kind.value if kind else 'this kind'} belongs to {word}, "
                f"and {executors(use.where.tiling)} execute this",
                use.span,
                f"put it at the scope of {word}",
            )
            return
    if declared.uses:
        size = declared.uses[0].where.tiling.threads
        unit = {1: "thread", 32: "warp", 128: "warpgroup"}[size]
        dims = tuple(range(len(declared.declaration.shape)))
        yield from check_owners(declared, declared.uses, dims, Owning(size, unit, "a commit group"))


def _check_cluster_sync(alloc: ir.BarrierAlloc) -> Iterator[Diagnostic]:
    """The cluster has one barrier.cluster: the variable has one element."""
    if any(constant(extent) != 1 for extent in alloc.shape):
        yield Diagnostic(
            "D512",
            f"{alloc.name} is a cluster sync and has several elements",
            alloc.span,
            f"declare {alloc.name}: barrier @ CudaClusterSync",
        )


# --- mbarriers ------------------------------------------------------------------------------


def _check_mbarrier(declared: Declared, roles: Roles) -> Iterator[Diagnostic]:
    """An element lives in one CTA, where all its Arrives (at home) and Awaits are executed."""
    size = declared.where.tiling.block_dim
    of_ctas = frozenset[int]()
    if declared.where.tiling.cluster_dim > 1 and roles.dims:
        of_ctas = frozenset(distributed_dims(declared, declared.uses, size))
    refused = [*check_roles(declared, roles, of_ctas)]
    if refused:
        yield from refused
        return
    homes: list[Use] = []
    arrives: dict[ir.Arrive, Use] = {}
    trailing: list[Use] = []
    for use in declared.uses:
        match use.stmt:
            case ir.Arrive() if use.stmt not in arrives:
                arrives[use.stmt] = use
                home = home_of(tuple(first_element(t, roles.waiting) for t in use.stmt.targets))
                if home is None:
                    yield Diagnostic(
                        "D507",
                        f"this Arrive has no home: no target is a point in every dimension "
                        f"of {use.access.name}",
                        use.span,
                        "index each dimension by a point in at least one target, as in "
                        ">> z[m, :] >> z[:, n], whose home is z[m, n]",
                    )
                    return
                homes.append(replace(use, access=home))
            case ir.Arrive():
                pass
            case ir.CallInstr():
                trailing.append(use)
                homes.append(use)
            case _:
                homes.append(use)
    dims: tuple[int, ...] = ()
    if declared.where.tiling.cluster_dim > 1:
        dims = distributed_dims(declared, homes, size)
    refused = list(_check_targets(declared, arrives, trailing, dims, roles))
    yield from refused
    if not refused:
        owning = Owning(size, "CTA", "an mbarrier", whole=False)
        yield from check_owners(declared, homes, dims, owning)
        yield from _check_counts(declared, arrives, roles)


def _check_targets(
    declared: Declared,
    arrives: dict[ir.Arrive, Use],
    trailing: Sequence[Use],
    dims: Sequence[int],
    roles: Roles,
) -> Iterator[Diagnostic]:
    """Multicast goes over whole CTA dimensions, and every target contains the home."""
    targets = [(use, t) for stmt, use in arrives.items() for t in stmt.targets]
    for use in trailing:
        assert isinstance(use.stmt, ir.CallInstr) and use.stmt.trailing is not None
        targets.append((use, use.stmt.trailing))
    for use, target in targets:
        for d, coord in enumerate(target.coords):
            if d in roles.waiting:
                continue
            extent = declared.declaration.shape[d]
            if isinstance(coord, ir.Interval):
                whole = constant(coord.lo) == 0 and difference(coord.hi, extent) == 0
                whole = whole and constant(extent) is not None
                if not whole or (d not in dims and constant(extent) != 1):
                    why = "only a part of it" if d in dims else "which is not distributed over CTAs"
                    yield Diagnostic(
                        "D508",
                        f"a multicast signals dimension {d} of {target.name}, {why}",
                        target.span if target.span.line else use.span,
                        "multicast over whole dimensions that are indexed by the CTA, as `:`; "
                        "where a dimension is of roles that await, an Arrive is on all of it, "
                        f"Arrive(...) >> {target.name}[:], and each Await on one element",
                    )
                    return
            elif isinstance(use.stmt, ir.Arrive):
                at_home = first_home(use.stmt.targets).coords[d]
                if isinstance(at_home, ir.Point) and difference(coord.at, at_home.at) != 0:
                    yield Diagnostic(
                        "D507",
                        f"the targets of this Arrive have no common element in dimension {d} "
                        f"of {target.name}",
                        target.span if target.span.line else use.span,
                        "use the same point in every target that has one there",
                    )
                    return


def _check_counts(
    declared: Declared, arrives: dict[ir.Arrive, Use], roles: Roles
) -> Iterator[Diagnostic]:
    """All Arrives of one role on one variable have the same thread count per phase."""
    counts: dict[tuple[int, ...], tuple[Use, int]] = {}
    of_role = role_of(arrives, roles)
    for stmt, use in arrives.items():
        count = arrive_count(stmt, use.where.tiling, roles)
        one, expected = counts.setdefault(of_role[stmt], (use, count))
        if count != expected:
            yield Diagnostic(
                "D509",
                f"the Arrives on {declared.declaration.name} differ in their threads a phase: "
                f"{expected} and {count}",
                use.span,
                "an mbarrier completes a phase after one fixed number of arrivals: arrive with "
                "the same number of threads and of CTAs everywhere",
                (Note(f"{expected}: {executors(one.where.tiling)}", one.span),),
            )
            return


def role_of(arrives: Iterable[ir.Arrive], roles: Roles) -> Mapping[ir.Arrive, tuple[int, ...]]:
    """The index of the role of each Arrive; one for all where some Arrive is of several."""
    found: dict[ir.Arrive, tuple[int, ...]] = {}
    for stmt in arrives:
        home = first_home(stmt.targets)
        coords = (home.coords[d] for d in sorted(roles.arriving))
        index = [constant(c.at) if isinstance(c, ir.Point) else None for c in coords]
        found[stmt] = tuple(i for i in index if i is not None)
    if len({len(index) for index in found.values()} | {len(roles.arriving)}) > 1:
        return dict.fromkeys(found, ())
    return found


def arrive_count(stmt: ir.Arrive, tiling: Tiling, roles: Roles = NO_ROLES) -> int:
    """Arrivals a phase: threads of the collective times the CTAs that target an element."""
    targets = tuple(first_element(target, roles.waiting) for target in stmt.targets)
    return tiling.threads * targeting_ctas(targets)


def targeting_ctas(targets: Sequence[ir.Access]) -> int:
    """Counts the homes that target one element: as many as the elements that one home targets.

    Elements are counted by their distance from home, which is 0 where a target has a point.
    """
    elements: set[tuple[int, ...]] = set()
    for target in targets:
        spans: list[range] = []
        for coord in target.coords:
            extent = difference(coord.hi, coord.lo) if isinstance(coord, ir.Interval) else 1
            assert extent is not None
            spans.append(range(extent))
        elements.update(product(*spans))
    return len(elements)


# Flags (decision `flags`): who may wait for whom is the order of all tasks of all clusters.


def flags_of(proc: ir.Proc) -> tuple[ir.BarrierAlloc, ...]:
    """The flags of a procedure, in the order of its text."""
    return tuple(
        stmt
        for stmt in walk(proc.body)
        if isinstance(stmt, ir.BarrierAlloc) and stmt.mechanism is BarrierMechanism.FLAG
    )


def uses(block: ir.Block, flags: frozenset[Sym]) -> tuple[ir.Arrive | ir.Await, ...]:
    """The Arrives on flags and the Awaits of them, in the order of the text."""
    return tuple(
        stmt
        for stmt in walk(block)
        if (isinstance(stmt, ir.Arrive) and stmt.targets[0].name in flags)
        or (isinstance(stmt, ir.Await) and stmt.barrier.name in flags)
    )


def check(proc: ir.Proc) -> Iterator[Diagnostic]:
    """Launches that use flags beside memory that serves one task of a cluster after another.

    Of that memory a proof knows the tasks of one cluster, in any order; an Await of a flag counts
    the Arrives of all clusters, in theirs.
    """
    flags = {flag.name: flag for flag in flags_of(proc)}
    launches = [stmt for stmt in walk(proc.body) if isinstance(stmt, ir.DeviceFunction)]
    resides = [s for one in launches for s in one.body if isinstance(s, ir.Alloc | ir.BarrierAlloc)]
    if flags and resides:
        name, place = resides[0].name, resides[0].span
        flag = next(iter(flags.values()))
        yield Diagnostic(
            "D525",
            f"{name} serves one task of a cluster after another, and {flag.name} is a flag",
            place,
            f"declare {name} inside the innermost cuda_tasks loop, or divide the procedure",
            (Note("the flag", flag.span),),
        )
