"""Named barriers as split barriers: what the hardware counts is the same threads each time.

A phase of one is over when all threads that arrive and all that await it have come.  So its
Arrives on an element have one number of threads, its Awaits another, each is of whole warps of one
CTA, and no thread does both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from exogpu.analysis.ownership import Declared, Use, distributed_dims
from exogpu.analysis.ownership_check import Owning, check_owners
from exogpu.analysis.thread_names import executors
from exogpu.analysis.threadmap import threads_of
from exogpu.analysis.tiling import iterations
from exogpu.diagnostics.errors import Diagnostic, Note
from exogpu.ir.affine import constant
from exogpu.ir.nodes import Arrive, Await, Point, Stmt
from exogpu.ir.walk import control_variables, evaluate


@dataclass(frozen=True, slots=True)
class _Group:
    """The threads of one iteration of a use's thread loops, and the element that they use; None in
    the place of an index that depends on more than them."""

    use: Use
    element: tuple[int | None, ...]
    threads: frozenset[int]

    @property
    def arrives(self) -> bool:
        """Tests whether the statement arrives without waiting."""
        return isinstance(self.use.stmt, Arrive)

    def one_element(self, other: _Group) -> bool:
        """Tests whether both may use one element."""
        pairs = zip(self.element, other.element, strict=True)
        return all(a is None or b is None or a == b for a, b in pairs)


def check_named(declared: Declared) -> Iterator[Diagnostic]:
    """All that is refused of one variable of named barriers, at most one."""
    alloc = declared.declaration
    note = (Note("allocated here", alloc.span),)
    if any(constant(extent) is None for extent in alloc.shape):
        yield Diagnostic(
            "D521",
            f"the extents of {alloc.name} depend on sizes",
            alloc.span,
            "use constants: a CTA has 16 named barriers",
        )
        return
    groups: list[_Group] = []
    for use in declared.uses:
        if not all(isinstance(coord, Point) for coord in use.access.coords):
            yield Diagnostic(
                "D521",
                f"several elements of the named barrier {alloc.name} are used at once",
                use.span,
                "write a statement for each element",
                note,
            )
            return
        if isinstance(use.stmt, Await) and use.stmt.n != ~0:
            yield Diagnostic(
                "D521",
                f"this Await on the named barrier {alloc.name} does not wait for its own number",
                use.span,
                "a named barrier keeps one phase: use ~0, or an mbarrier",
                note,
            )
            return
        if not _is_of_warps(use):
            yield Diagnostic(
                "D521",
                f"{executors(use.where.tiling)} use the named barrier {alloc.name}, which counts "
                "whole warps of one CTA",
                use.span,
                "use it at the scope of warps, or use an mbarrier",
                note,
            )
            return
        groups += _groups(use)
    size = declared.where.tiling.block_dim
    dims: tuple[int, ...] = ()
    if declared.where.tiling.cluster_dim > 1:
        dims = distributed_dims(declared, declared.uses, size)
    owning = Owning(size, "CTA", "a named barrier", whole=False)
    refused = [*check_owners(declared, declared.uses, dims, owning)]
    yield from refused or _check_threads(declared, groups)


def _check_threads(declared: Declared, groups: Sequence[_Group]) -> Iterator[Diagnostic]:
    name = declared.declaration.name
    for first, second in combinations(groups, 2):
        if not first.one_element(second):
            continue
        alike = first.arrives == second.arrives
        if alike and len(first.threads) != len(second.threads):
            yield Diagnostic(
                "D509",
                f"the {'Arrives' if first.arrives else 'Awaits'} on {name} differ in their threads "
                f"a phase: {len(first.threads)} and {len(second.threads)}",
                second.use.span,
                "a named barrier completes a phase after one fixed number of threads",
                (Note(f"{executors(first.use.where.tiling)} here", first.use.span),),
            )
            return
        if not alike and not first.threads.isdisjoint(second.threads):
            yield Diagnostic(
                "D521",
                f"threads that arrive on {name} await it, too",
                second.use.span,
                "a phase has threads that only arrive and threads that wait: join those that do "
                "both by a Fence, or give each direction an element of its own",
                (Note(f"here they {'arrive' if first.arrives else 'await it'}", first.use.span),),
            )
            return


def threads_of_phases(declared: Declared) -> Mapping[Stmt, frozenset[int]]:
    """By statement, how many threads make up a phase of an element that it uses: those that arrive
    and those that await.  Several where its elements differ; none where one side is missing."""
    groups = [group for use in declared.uses for group in _groups(use)]
    found: dict[Stmt, set[int]] = {use.stmt: set() for use in declared.uses}
    for first, second in combinations(groups, 2):
        if first.arrives != second.arrives and first.one_element(second):
            for one in (first, second):
                found[one.use.stmt].add(len(first.threads) + len(second.threads))
    return {stmt: frozenset(numbers) for stmt, numbers in found.items()}


def _is_of_warps(use: Use) -> bool:
    tiling = use.where.tiling
    for env in iterations(tiling):
        threads = threads_of(tiling.thread_map(), env)
        warps = {thread // 32 for thread in threads}
        if len(threads) != 32 * len(warps) or len({t // tiling.block_dim for t in threads}) != 1:
            return False
    return True


def _groups(use: Use) -> Iterator[_Group]:
    tiling = use.where.tiling
    for env in iterations(tiling):
        element = tuple(
            evaluate(coord.at, env)
            if isinstance(coord, Point) and control_variables(coord.at) <= env.keys()
            else None
            for coord in use.access.coords
        )
        yield _Group(use, element, frozenset(threads_of(tiling.thread_map(), env)))
