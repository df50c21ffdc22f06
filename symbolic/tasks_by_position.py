"""Models memory that resides in a cluster as a nest (decision `resident-memory`): its tasks by
their positions.

A cluster executes some of a launch's tasks in some order.  What it does is a loop over positions
0, 1, 2, ...: of the task at a position nothing is known but that it is one of the launch's, and
that no two positions have the same one.  So the loops of the tasks become one loop over
`position`, and their iterators are unknown functions of it:

for m in tasks(0, M):             for position in tasks(0, positions):
    for n in tasks(0, N):   ->        m, n = those of this position's task
        body                          body

What synchronises, and all that touches what resides, must not read them: then it is the same in
every task, and an ordinary nest.  Other accesses may, and keep the loops of the tasks around them:
two instances at one position have the same values there, and at different ones never.

A task may be left out: where a condition is around all that it does, but for what it loads, a task
in which it does not hold touches nothing that resides and synchronises nothing, so that positions
are those of the others.  What synchronises, and what touches what resides, is then executed at
each position; other accesses keep the condition.

for m in tasks(0, M):              for position in tasks(0, positions):
    n = load(counts[m])     ->         m, n = those of this position's task
    if n > 0:                          body
        body
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from exogpu.amir import nodes as amir
from exogpu.amir.walk import begins_tasks, operations
from exogpu.diagnostics.errors import Span
from exogpu.ir import nodes as ir
from exogpu.ir.types import Sym
from exogpu.ir.walk import control_variables
from exogpu.symbolic.ring_steps import RingSteps, take_rings_out

POSITIONS: Final = "positions"
"""The parameter: how many tasks a cluster executes."""

POSITION: Final = "position"


class ResidentError(Exception):
    """Positions do not express this use of resident memory; carries reason and place."""

    def __init__(self, reason: str, span: Span) -> None:
        super().__init__(reason)
        self.reason = reason
        self.span = span


@dataclass(frozen=True, slots=True, eq=False)
class Residence:
    """A launch in which memory resides."""

    loop: amir.Loop
    """Over the positions; the loops of its tasks stand in it, one in the other."""
    tasks: tuple[amir.Loop, ...]
    depth: int
    """The number of loops around the launch."""
    count: ir.ControlParam
    chosen: tuple[ir.BExpr, ...] = ()
    """The conditions around all that its tasks do: positions are of tasks in which they hold."""
    ring: RingSteps | None = None
    """A ring that was taken out of the tasks: positions are its steps, and there are no tasks."""

    @property
    def params(self) -> tuple[ir.ControlParam, ...]:
        """The parameters that it adds to the program."""
        return (self.count,) if self.ring is None else (self.count, self.ring.rounds)

    @property
    def iterators(self) -> frozenset[Sym]:
        """The iterators of the tasks: unknown functions of the position."""
        return frozenset(loop.iterator for loop in self.tasks)


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """A program by positions, and its launches in which memory resides."""

    program: amir.Program
    residences: tuple[Residence, ...] = ()
    beside: Mapping[amir.Op, Residence] | None = None
    """The residence of operations of these launches outside of tasks."""


def positions(program: amir.Program) -> Positions:
    """The program with a loop over positions in place of the tasks of each launch in which memory
    resides; itself, where none does.  Raises ResidentError."""
    resident = {variable.name for variable in program.variables if variable.resident}
    if not resident:
        return Positions(program)
    made = _Positions(
        {variable.name: variable for variable in program.variables},
        {v.name for v in program.variables} - resident - _of_tasks(program),
    )
    body = made.block(program.body, 0)
    copies = (copy for one in made.found if one.ring is not None for copy in one.ring.copies)
    return Positions(
        replace(
            program,
            params=(*program.params, *(param for one in made.found for param in one.params)),
            preconditions=(*program.preconditions, *(_fit(one) for one in made.found)),
            variables=(*program.variables, *copies),
            body=body,
        ),
        tuple(made.found),
        made.beside,
    )


def _of_tasks(program: amir.Program) -> set[Sym]:
    """Returns the variables allocated within tasks."""
    nests = [op for op in operations(program.body) if isinstance(op, amir.Loop) and op.tasks]
    inside = (op for nest in nests for op in operations(nest.body))
    return {op.name for op in inside if isinstance(op, amir.Alloc)}


class _Positions:
    def __init__(self, variables: dict[Sym, amir.Variable], given: set[Sym]) -> None:
        self.variables = variables
        self.given = given
        """The variables that are allocated around all tasks, or nowhere: arrays of the host and of
        the caller."""
        self.found: list[Residence] = []
        self.beside: dict[amir.Op, Residence] = {}

    def block(self, block: amir.Block, depth: int) -> amir.Block:
        """A block at CPU scope: each launch stands between two Fences."""
        made: list[amir.Op] = []
        launch: list[amir.Op] = []
        for op in block:
            if isinstance(op, amir.Fence) and op.origin.threads is None:
                made += [*self.launch(launch, depth), op]
                launch = []
            elif isinstance(op, amir.Loop) and not op.tasks and begins_tasks(op.body):
                launch.append(replace(op, body=self.block(op.body, depth + 1)))
            elif isinstance(op, amir.Guard) and begins_tasks(op.body):
                launch.append(replace(op, body=self.block(op.body, depth)))
            else:
                launch.append(op)
        return (*made, *self.launch(launch, depth))

    def launch(self, ops: Sequence[amir.Op], depth: int) -> list[amir.Op]:
        """Rewrites the operations between two Fences at CPU scope."""
        if not self.allocs(ops):
            return list(ops)
        rings, left = take_rings_out(ops, self.variables)
        made: list[amir.Op] = []
        for ring in rings:
            residence = Residence(ring.loop, (), depth, ring.count, ring=ring)
            self.found.append(residence)
            self.beside |= dict.fromkeys((*ring.before, *ring.after), residence)
            made += ring.ops
        return [*made, *self.tasks(left, depth)]

    def allocs(self, ops: Sequence[amir.Op]) -> list[amir.Alloc]:
        """The allocations of what resides."""
        return [op for op in ops if isinstance(op, amir.Alloc) and self.variables[op.name].resident]

    def tasks(self, ops: Sequence[amir.Op], depth: int) -> list[amir.Op]:
        """Rewrites a launch without the rings that are taken out of its tasks."""
        allocs = self.allocs(ops)
        if not allocs:
            return list(ops)
        match [op for op in ops if begins_tasks((op,))]:
            case [amir.Loop(tasks=True) as nest]:
                tasks = tuple(_nested(nest))
            case _:
                why = "what resides serves other than one nest of cuda_tasks loops"
                raise ResidentError(why, allocs[0].origin.span)
        number = sum(one.ring is None for one in self.found)
        count = ir.ControlParam(Sym(f"{POSITIONS}{number or ''}"), "index")
        loop = amir.Loop(
            Sym(POSITION), ir.Int(0), ir.CVar(count.name), (nest,), nest.origin, tasks=True
        )
        residence = Residence(
            loop, tasks, depth, count, tuple(self.task_conditions(tasks[-1].body))
        )
        self.found.append(residence)
        self.beside |= {op: residence for op in ops if op is not nest}
        return [loop if op is nest else op for op in ops]

    def task_conditions(self, block: amir.Block) -> Iterator[ir.BExpr]:
        """The conditions around the rest of a task, from its begin on."""
        if not block or not all(self.beside_all(op) for op in block[:-1]):
            return
        last = block[-1]
        match last:
            case amir.Loop(source=ir.Access()):
                yield from self.task_conditions(last.body)
            case amir.Guard():
                yield last.condition
                yield from self.task_conditions(last.body)
            case _:
                return

    def beside_all(self, op: amir.Op) -> bool:
        """Tests whether tasks that are left out may execute an operation: it synchronises nothing,
        and touches nothing that resides or is allocated in tasks."""
        match op:
            case amir.IncTaskID() | amir.Require():
                return True
            case amir.Loop(slot=ir.Access()):
                return all(
                    isinstance(inner, amir.Loop | amir.Require) for inner in operations(op.body)
                )
            case amir.Check(access=access) | amir.Record(access=access, trailing=None):
                return access.name in self.given
            case amir.Initialise(access=access) | amir.CheckInitialised(access=access):
                return access.name in self.given
            case _:
                return False


def _nested(nest: amir.Loop) -> Iterator[amir.Loop]:
    """The loops of the tasks, which stand directly in each other."""
    yield nest
    match nest.body:
        case (amir.IncTaskID(), *_):
            return
        case (amir.Loop(tasks=True) as inner,):
            yield from _nested(inner)
        case _:
            raise ResidentError("cuda_tasks loops are not nested directly", nest.origin.span)


def _fit(residence: Residence) -> ir.BExpr:
    """A cluster has at most as many positions as there are tasks, where that is a linear formula;
    at least none."""
    count = ir.CVar(residence.count.name)
    none = ir.Compare("<=", count, ir.Int(0))
    some: ir.BExpr = ir.Compare("<=", ir.Int(0), count)
    if residence.ring is not None:
        rounds = ir.CVar(residence.ring.rounds.name)
        return ir.And(some, ir.Compare("<=", ir.Int(0), rounds))
    factor, others = 1, list[ir.CExpr]()
    for extent in extents(residence):
        if isinstance(extent, ir.Int):
            factor *= max(0, extent.value)
        else:
            others.append(extent)
    if residence.depth or any(_reads(one, residence.iterators) for one in others):
        return some
    for extent in others:
        some = ir.And(some, ir.Or(none, ir.Compare("<=", ir.Int(1), extent)))
    if len(others) > 1:
        return some
    total = ir.Mul(factor, others[0]) if others else ir.Int(factor)
    return ir.And(some, ir.Or(none, ir.Compare("<=", count, total)))


def extents(residence: Residence) -> tuple[ir.CExpr, ...]:
    """Iterations of each loop of the tasks."""
    return tuple(
        loop.hi if loop.lo == ir.Int(0) else _difference(loop.hi, loop.lo)
        for loop in residence.tasks
    )


def _difference(hi: ir.CExpr, lo: ir.CExpr) -> ir.CExpr:
    if isinstance(hi, ir.Int) and isinstance(lo, ir.Int):
        return ir.Int(hi.value - lo.value)
    return ir.Sub(hi, lo)


def _reads(expr: ir.CExpr, names: frozenset[Sym]) -> bool:
    return bool(control_variables(expr) & names)
