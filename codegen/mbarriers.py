"""What an mbarrier variable becomes: a ring of hardware mbarriers in each CTA.

The model counts the Arrives and Awaits of each element anew in every task; a hardware mbarrier
counts phases for as long as the kernel runs.  Each thread keeps, for each variable, how often it
has arrived and how often it has awaited since the kernel began.  The invariant that makes this
enough: at every Free as many Arrives as Awaits have been executed on each element (BARRIER
balance), all of them are ordered before what any thread of the cluster does next (the check of the
Free), and all Arrives, as all Awaits, of an element are executed by the same threads (checked here;
or, where several collectives use it in turn, all threads count what each of them does, see
`exogpu.codegen.turn_taking`).  So all running totals agree on the number of the next task's first
arrival.  Arrival number r, counted over all tasks, is phase r / depth of mbarrier r % depth; its
parity is r / depth % 2.  An Await with skip m waits for its own number - m, and not at all for the
first m of a task, or, where the variable resides from task to task (decision 27), of the kernel:
then the model counts on as the hardware does.  When it waits, phase r / depth - 1 of the mbarrier
is over, in an earlier task or, as PHASE (iii) says, because it was awaited depth Awaits ago, here
by the same thread or by one that it follows; PHASE (ii) says that phase r / depth + 1 is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Final

from exogpu.analysis.affine import constant
from exogpu.analysis.barriers import home_of, targeting_ctas
from exogpu.analysis.facts import Facts
from exogpu.analysis.ownership import distributed_dims, relation, thread_iterators
from exogpu.analysis.pairing import laid_out
from exogpu.analysis.threadmap import threads_of
from exogpu.analysis.tiling import Tiling, block_axes, iterations
from exogpu.analysis.uses import Declared, Use
from exogpu.codegen.errors import unsupported
from exogpu.codegen.parts import parts_of
from exogpu.codegen.turn_taking import take_turns
from exogpu.ir.names import Sym
from exogpu.ir.nodes import (
    Add,
    Arrive,
    Await,
    BarrierAlloc,
    CallInstr,
    CExpr,
    Coord,
    DataParam,
    DeviceFunction,
    Int,
    Mul,
    Point,
)
from exogpu.ir.types import BarrierMechanism, Policy, QualSet, QualTL
from exogpu.ir.walk import control_variables, evaluate, walk
from exogpu.solvers import isl

MAX_CLUSTER: Final = 8
"""CTAs of a cluster whose masks of targets fit one 64-bit constant."""


@dataclass(frozen=True, slots=True)
class Ring:
    """How an mbarrier variable is laid out and used."""

    name: Sym
    depth: int
    skip: int
    kept: tuple[int, ...]
    """The dimensions that a CTA indexes."""
    extents: tuple[int, ...]
    warps: bool
    """Whether whole warps arrive: one lane of each, for all."""
    count: int
    """Arrivals that complete a phase."""
    trailing: bool
    """Whether instructions signal it, by bytes."""
    targets: Mapping[Arrive, tuple[int, ...]]
    """By the rank of the arriving CTA, a mask of the CTAs whose mbarriers it signals."""
    remote: bool
    """Whether threads of other CTAs arrive on it.  Bytes that other CTAs send do not count: they
    land in this CTA's memory, and the mbarrier beside them tells when."""
    before: QualSet
    """The timelines of accesses that an Arrive, or an instruction that trails, orders."""
    copies: bool
    """Whether the Arrives order each thread's cp.async alone, and wait for none of them."""
    in_turn: bool = False
    """Whether several collectives use its one element in turn: all threads count what each does."""
    every: bool = False
    """Whether each thread of the warps arrives, not one for all: what a race checker follows."""

    own: bool = False
    """Whether no thread arrives on two elements of its CTA, or awaits two: it counts in scalars."""

    @property
    def elements(self) -> int:
        """Elements that one CTA holds, each a ring."""
        return math.prod(self.extents)

    @property
    def counters(self) -> int:
        """Of each kind, in each thread."""
        return 1 if self.own else self.elements

    @property
    def bytes(self) -> int:
        """Of shared memory."""
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
        if not isinstance(alloc, BarrierAlloc) or not declared.uses:
            continue
        if alloc.mechanism is BarrierMechanism.MBARRIER:
            depth = facts.ring_depths[alloc.name] or (proved or {}).get(alloc.name.name)
            found[alloc.name] = _ring(declared, alloc, laid_out(depth), arrive_all)
    return found


def barrier_bytes(
    launch: DeviceFunction, all_rings: Mapping[Sym, Ring]
) -> tuple[Mapping[Sym, int], int]:
    """Where the rings of a launch begin in shared memory, and the bytes of all of them.

    Rings never share bytes: a hardware mbarrier is initialised once.
    """
    offsets: dict[Sym, int] = {}
    at = 0
    for stmt in walk(launch.body):
        if isinstance(stmt, BarrierAlloc) and stmt.name in all_rings:
            offsets[stmt.name] = at
            at += all_rings[stmt.name].bytes
    return offsets, at


def _ring(declared: Declared, alloc: BarrierAlloc, depth: int, arrive_all: bool) -> Ring:
    tiling = declared.where.tiling
    arrives = [u for u in declared.uses if isinstance(u.stmt, Arrive)]
    awaits = [u for u in declared.uses if isinstance(u.stmt, Await)]
    trailing = [u for u in declared.uses if isinstance(u.stmt, CallInstr)]
    homes = list(_homes(arrives))
    if not homes or not awaits:
        raise _refuse(alloc, f"{alloc.name} has no Arrive or no Await", "remove it")
    skips = {-u.stmt.n - 1 for u in awaits if isinstance(u.stmt, Await)}
    if len(skips) > 1:
        raise _refuse(
            alloc, f"the Awaits on {alloc.name} differ in their skip", "use one `~m` everywhere"
        )
    same_element = [*homes, *awaits, *trailing]
    dims: tuple[int, ...] = ()
    if tiling.cluster_dim > 1:
        dims = distributed_dims(declared, same_element, tiling.block_dim)
    extents = []
    kept = tuple(d for d in range(len(alloc.shape)) if d not in dims)
    for d in kept:
        extent = constant(alloc.shape[d])
        if extent is None:
            raise _refuse(alloc, f"the extents of {alloc.name} depend on sizes", "use constants")
        extents.append(extent)
    alike = all(_alike(declared, alloc, uses) for uses in ([*homes, *trailing], awaits))
    single = math.prod(extents) == 1 and not trailing
    in_turn = not alike and single and _takes_turns(declared, alloc, homes, awaits)
    if not in_turn:
        depth = power_of_two(depth)
        _check_threads(declared, alloc, [*homes, *trailing], "arrive on")
        _check_threads(declared, alloc, awaits, "await")
    first = homes[0]
    assert isinstance(first.stmt, Arrive)
    pre = [u.stmt.timeline.under(Policy.PTX).full for u in arrives if isinstance(u.stmt, Arrive)]
    copies = all(full == {QualTL.SM80} for full in pre)
    warps = all(whole_warps(use.where.tiling) for use in homes) and not copies
    threads = math.prod(axis.extent for axis in block_axes(first.where.tiling))
    each = threads // 32 if warps and not arrive_all else threads
    targets = _targets(alloc, homes, dims)
    own = tuple(1 << cta for cta in range(tiling.cluster_dim))
    return Ring(
        alloc.name,
        depth,
        skips.pop(),
        kept,
        tuple(extents),
        warps,
        each * targeting_ctas(first.stmt.targets),
        bool(trailing),
        targets,
        any(masks != own for masks in targets.values()),
        frozenset().union(*pre, *map(_sources, trailing)),
        copies,
        in_turn,
        arrive_all,
        not arrive_all and _one_each([*homes, *trailing], kept) and _one_each(awaits, kept),
    )


def _one_each(uses: Sequence[Use], kept: Sequence[int]) -> bool:
    """Whether no thread uses two of the elements that its CTA holds."""
    mine: dict[int, list[int]] = {}
    for use in uses:
        coords = (use.access.coords[d] for d in kept)
        firsts = [coord.at if isinstance(coord, Point) else coord.lo for coord in coords]
        threads = use.where.tiling.thread_map()
        for env in iterations(use.where.tiling):
            if not all(control_variables(first) <= env.keys() for first in firsts):
                return False
            element = [evaluate(first, env) for first in firsts]
            for thread in threads_of(threads, env):
                if mine.setdefault(thread, element) != element:
                    return False
    return True


def power_of_two(depth: int) -> int:
    """The least power of two that is no less: remainders of it cost one instruction.

    A deeper ring is right where the same threads execute all Awaits (`laid_out`).  With 8
    mbarriers in the place of 5, a product at 4096 takes 0.98 of the time.
    """
    return 1 << (depth - 1).bit_length()


def _refuse(alloc: BarrierAlloc, what: str, help: str) -> Exception:
    return unsupported(what, alloc.span, help, "G807")


def _sources(use: Use) -> QualSet:
    """The timelines of a trailing instruction's operands."""
    assert isinstance(use.stmt, CallInstr)
    operands = [p.operand for p in use.stmt.instr.params if isinstance(p, DataParam)]
    return frozenset(o.initial for o in operands if o is not None)


def _homes(arrives: Sequence[Use]) -> Iterator[Use]:
    """One use an Arrive, of its home element."""
    seen: set[Arrive] = set()
    for use in arrives:
        assert isinstance(use.stmt, Arrive)
        home = home_of(use.stmt.targets)
        assert home is not None, "distributed memory analysis refuses it"
        if use.stmt not in seen:
            seen.add(use.stmt)
            yield replace(use, access=home)


def _check_threads(declared: Declared, alloc: BarrierAlloc, uses: Sequence[Use], what: str) -> None:
    """All uses of an element are executed by the same threads: they count alike.

    An element is told by its indices that the threads choose, and by those that are constant in
    every use.
    """
    if not _alike(declared, alloc, uses):
        raise _refuse(
            alloc,
            f"different threads {what} one element of {alloc.name}: none of them could count for "
            "all",
            "let one collective execute them all, or give each an element of its own: "
            f"{alloc.name}[0], {alloc.name}[1]",
        )


def _alike(declared: Declared, alloc: BarrierAlloc, uses: Sequence[Use]) -> bool:
    inputs = _inputs(declared, alloc, uses)
    maps = [relation(use, declared, inputs, "u").map for use in uses]
    alike = all(_agree(first, second) for first, second in combinations(maps, 2))
    return alike and all(_one_collective(use, inputs.values()) for use in uses)


def _inputs(declared: Declared, alloc: BarrierAlloc, uses: Sequence[Use]) -> dict[str, int]:
    """The dimensions that tell elements apart, by the names that they get in relations."""
    inputs: dict[str, int] = {}
    for d in range(len(alloc.shape)):
        read = [_read(use.access.coords[d]) for use in uses]
        chosen = any(
            r & thread_iterators(u.where, declared) for r, u in zip(read, uses, strict=True)
        )
        if chosen or not any(read):
            inputs[f"i{d}"] = d
    return inputs


def _takes_turns(
    declared: Declared, alloc: BarrierAlloc, homes: Sequence[Use], awaits: Sequence[Use]
) -> bool:
    """Whether different threads use the one element that a CTA has, in turn, and all of its threads
    pass the places where any of them do."""
    uses = [*homes, *awaits]
    inputs = _inputs(declared, alloc, uses)
    threads = {use.stmt: relation(use, declared, inputs, "u").map for use in uses}
    return (
        all(isinstance(u.stmt, Await) and u.stmt.n == -1 for u in awaits)
        and all(isinstance(u.stmt, Arrive) and len(u.stmt.targets) == 1 for u in homes)
        and all(isinstance(c, Point) for u in homes for c in u.access.coords)
        and all(len(parts_of(u.where.tiling).sets) == 1 for u in uses)
        and take_turns(declared.block, alloc.name, threads)
    )


def _read(coord: Coord) -> frozenset[Sym]:
    return frozenset(control_variables(coord.at)) if isinstance(coord, Point) else frozenset()


def _agree(first: isl.Map, second: isl.Map) -> bool:
    """Whether the elements that both relations have go to the same threads."""
    return isl.is_equal_map(
        isl.restrict_domain(first, isl.domain(second)),
        isl.restrict_domain(second, isl.domain(first)),
    )


def _one_collective(use: Use, dims: Iterable[int]) -> bool:
    """Whether no two iterations of the thread loops around a use divide an element's threads."""
    by_element: dict[tuple[int, ...], tuple[int, ...]] = {}
    for env in iterations(use.where.tiling):
        points = [c.at for c in (use.access.coords[d] for d in dims) if isinstance(c, Point)]
        known = [at for at in points if control_variables(at) <= env.keys()]
        element = tuple(evaluate(at, env) for at in known)
        threads = threads_of(use.where.tiling.thread_map(), env)
        if by_element.setdefault(element, threads) != threads:
            return False
    return True


def whole_warps(tiling: Tiling) -> bool:
    """Whether the scope consists of whole warps in each CTA."""
    axes = block_axes(tiling)
    return (
        bool(axes)
        and axes[-1].pitch == 1
        and axes[-1].extent % 32 == 0
        and all(axis.pitch % 32 == 0 for axis in axes[:-1])
        and all(divides(32 // math.gcd(32, axis.pitch), axis.offset) for axis in axes)
    )


def divides(factor: int, expr: CExpr) -> bool:
    """Whether the expression is a multiple of `factor`, told from its parts."""
    match expr:
        case Int():
            return expr.value % factor == 0
        case Add():
            return divides(factor, expr.left) and divides(factor, expr.right)
        case Mul():
            return divides(factor // math.gcd(factor, expr.factor), expr.term)
        case _:
            return factor == 1


# --- multicast ------------------------------------------------------------------------------


def _targets(
    alloc: BarrierAlloc, homes: Sequence[Use], dims: Sequence[int]
) -> Mapping[Arrive, tuple[int, ...]]:
    """The CTAs that each Arrive signals, by enumeration of the thread iterators."""
    cluster = homes[0].where.tiling.cluster_dim
    found: dict[Arrive, tuple[int, ...]] = {}
    for use in homes:
        assert isinstance(use.stmt, Arrive)
        owner = {element: cta for cta, element in _home_elements(alloc, use, dims)}
        masks = [0] * cluster
        for element, cta in owner.items():
            for target in use.stmt.targets:
                spans = []
                for d, at in zip(dims, element, strict=True):
                    extent = constant(alloc.shape[d])
                    assert extent is not None
                    point = isinstance(target.coords[d], Point)
                    spans.append((at,) if point else tuple(range(extent)))
                for other in product(*spans):
                    masks[cta] |= 1 << owner[other]
        if cluster > MAX_CLUSTER and any(m != 1 << cta for cta, m in enumerate(masks)):
            raise _refuse(
                alloc,
                f"a multicast over more than {MAX_CLUSTER} CTAs of a cluster",
                "use smaller clusters",
            )
        found[use.stmt] = tuple(masks)
    return found


def _home_elements(
    alloc: BarrierAlloc, use: Use, dims: Sequence[int]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each CTA that arrives, and its home's distributed indices."""
    tiling = use.where.tiling
    for env in iterations(tiling):
        element = []
        for d in dims:
            coord = use.access.coords[d]
            assert isinstance(coord, Point)
            if not control_variables(coord.at) <= env.keys():
                raise _refuse(
                    alloc,
                    f"an index of {alloc.name} depends on more than the CTA",
                    "index it by cuda_threads iterators alone",
                )
            element.append(evaluate(coord.at, env))
        yield threads_of(tiling.thread_map(), env)[0] // tiling.block_dim, tuple(element)
