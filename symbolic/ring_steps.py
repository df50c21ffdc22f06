"""Takes rings that run on from task to task out of the tasks (decision `ring-steps`).

A cluster executes the body of one loop, again and again, with some tasks and iterators.  Where
all uses of some resident memory and its barriers stand in that body and read none of these
iterators, they are the same each time.  So they are a loop over steps, of a length of its own: how
many steps a task has does not matter, and the number of a step is that of an arrival.

for m in tasks(0, M):                     for step in tasks(0, steps):
    for k in seq(0, m + 1):                   uses of the ring
        uses of the ring          ->      for m in tasks(0, M):
        other accesses                        for k in seq(0, m + 1):
                                                  other accesses

What is left is proved as tasks in which nothing resides.  No synchronisation of one part orders
accesses of another, as of two launches.  A Fence or a commit group that serves several stands in
each.  A group begins anew with each block, so that an Await of it waits for no more than it does.

Conditions and numbers of iterations within a step that read the task are unknown functions of the
step: values from memory.  The ring's own barriers stand under none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from exogpu.amir import nodes as amir
from exogpu.amir.walk import Path, accesses_of, begins_tasks, operations, paths
from exogpu.diagnostics.hazards import HazardKind
from exogpu.ir import nodes as ir
from exogpu.ir.types import BarrierMechanism, Sym
from exogpu.ir.walk import control_variables, read_by
from exogpu.symbolic.ring_groups import Variables, is_comparison, is_needed, rings

STEPS: Final = "steps"
"""The parameter: how many steps a cluster executes."""

STEP: Final = "step"

ROUNDS: Final = "rounds"

WINDOW: Final = "window"


@dataclass(frozen=True, slots=True, eq=False)
class RingSteps:
    """A ring taken out of its tasks: all that a cluster does with it in a launch."""

    loop: amir.Loop
    """Over the steps."""
    before: amir.Block
    after: amir.Block
    count: ir.ControlParam
    rounds: ir.ControlParam
    """The most iterations of a loop within a step, of which the step does not tell how many."""
    around: tuple[amir.Loop | amir.Guard, ...]
    """The loops and conditions of which each step is an iteration, from those of the tasks on."""
    copies: tuple[amir.Variable, ...]
    """The commit groups of a step, and windows of which a barrier alone is told."""

    @property
    def ops(self) -> amir.Block:
        """The operations of the launch."""
        return (*self.before, self.loop, *self.after)


def take_rings_out(
    ops: Sequence[amir.Op], variables: Variables
) -> tuple[list[RingSteps], list[amir.Op]]:
    """Returns the rings of a launch that are taken out of its tasks, and what is left of it."""
    several = tuple(rings(ops, variables))
    single = sum(begins_tasks((op,)) for op in ops) == 1 and all(around for _, around in several)
    if not single or not any(is_needed(around) for _, around in several):
        return [], list(ops)
    try:
        found = [_Taking(names, around, variables).ring(ops) for names, around in several]
    except _StaysError:
        return [], list(ops)
    taken = frozenset[Sym]().union(*(names for names, _ in several))
    left = [one for op in ops for one in _without_rings(op, taken)]
    # The Fences before the frees of what resided: nothing else is freed there.
    return found, [op for op in left if not (isinstance(op, amir.Fence) and op.origin.threads)]


class _StaysError(Exception):
    """A ring is not the same in each step."""


# --- what is left -------------------------------------------------------------------------------


def _without_rings(op: amir.Op, names: frozenset[Sym]) -> Iterator[amir.Op]:
    """Yields an operation without what it does with a ring."""
    match op:
        case amir.Loop(slot=ir.Access() as slot) if slot.name in names:
            for inner in op.body:
                yield from _without_rings(inner, names)
        case amir.Loop() | amir.Guard():
            body = tuple(one for inner in op.body for one in _without_rings(inner, names))
            if body:
                yield op if body == op.body else replace(op, body=body)
        case amir.Require() if op.kind is HazardKind.SLOT and op.variable in names:
            return
        case amir.Alloc() | amir.Release() | amir.CheckBarrier():
            if op.name not in names:
                yield op
        case amir.Record() if op.access.name not in names:
            of_ring = op.trailing is not None and op.trailing.home.name in names
            yield replace(op, trailing=None) if of_ring else op
        case _:
            if not any(access.name in names for access in accesses_of(op)):
                yield op


def _rounds() -> ir.ControlParam:
    return ir.ControlParam(Sym(ROUNDS), "index")


# --- steps --------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Taking:
    """Makes the steps of one ring."""

    names: frozenset[Sym]
    around: Path
    variables: Variables
    rounds: ir.ControlParam = field(default_factory=_rounds)
    step: Sym = field(default_factory=lambda: Sym(STEP))
    scope: tuple[Sym, ...] = ()
    """The iterators around a block of a step."""
    groups: dict[Sym, Sym] = field(default_factory=dict)
    """By commit group, that of the block."""
    copies: list[amir.Variable] = field(default_factory=list)
    task: amir.IncTaskID = field(init=False)

    def ring(self, ops: Sequence[amir.Op]) -> RingSteps:
        """Raises _StaysError."""
        loops = tuple(op for _, op in self.around if isinstance(op, amir.Loop | amir.Guard))
        *_, last = loops
        forgotten = frozenset(op.iterator for op in loops if isinstance(op, amir.Loop))
        self.task = next(
            op
            for loop in loops
            if isinstance(loop, amir.Loop)
            for op in loop.body
            if isinstance(op, amir.IncTaskID)
        )
        compared = tuple(self.comparisons(ops))
        body = self.body_uses(last.body, forgotten, self.step)
        count = ir.ControlParam(Sym(STEPS), "index")
        loop = amir.Loop(
            self.step,
            ir.Int(0),
            ir.CVar(count.name),
            (replace(self.task), *compared, *body),
            last.origin,
            tasks=True,
        )
        at = next(at for at, op in enumerate(ops) if begins_tasks((op,)))
        return RingSteps(
            loop,
            tuple(self.launch_uses(ops[:at])),
            tuple(self.launch_uses(ops[at + 1 :])),
            count,
            self.rounds,
            loops,
            tuple(self.copies),
        )

    def launch_uses(self, ops: Sequence[amir.Op]) -> Iterator[amir.Op]:
        """Yields what a launch does beside its tasks with the ring."""
        for op in ops:
            match op:
                case amir.Alloc() | amir.Release() | amir.CheckBarrier():
                    if op.name in self.names:
                        yield op
                case amir.Fence() if op.origin.threads is not None:
                    yield replace(op)
                case _:
                    if any(access.name in self.names for access in accesses_of(op)):
                        yield op

    def comparisons(self, ops: Sequence[amir.Op]) -> Iterator[amir.Op]:
        """Yields what tasks require of the slots of the ring: each step requires it."""
        for path in paths(tuple(ops)):
            *around, (_, op) = path
            if around and is_comparison(around[-1][1]):
                continue
            inside = (access for one in operations((op,)) for access in accesses_of(one))
            if is_comparison(op) and any(access.name in self.names for access in inside):
                yield _renewed(op)

    def block(self, block: amir.Block, forgotten: frozenset[Sym]) -> Iterator[amir.Op]:
        """Yields what a block does with the ring; iterators that are forgotten are not read."""
        for op in block:
            yield from self.op(op, forgotten)

    def op(self, op: amir.Op, forgotten: frozenset[Sym]) -> Iterator[amir.Op]:
        match op:
            case amir.Loop(source=ir.Access()):
                yield from self.block(op.body, forgotten | {op.iterator})
            case amir.Loop(slot=ir.Access() as slot) if slot.name not in self.names:
                yield from self.block(op.body, forgotten | {op.iterator})
            case amir.Loop():
                yield from self.loop(op, forgotten)
            case amir.Guard():
                yield from self.guard(op, forgotten)
            case amir.Fence():
                if not _threads_read(op) & forgotten:
                    yield replace(op)
            case amir.Arrive(home=home):
                if home.name in self.names:
                    yield self.step_operation(op, forgotten)
                elif self.is_group(home.name):
                    name = self.copy_of(home.name)
                    targets = tuple(replace(one, name=name) for one in op.targets)
                    home = replace(home, name=name)
                    yield self.step_operation(replace(op, home=home, targets=targets), forgotten)
            case amir.Await(barrier=barrier):
                if barrier.name in self.names:
                    yield self.step_operation(op, forgotten)
                elif self.is_group(barrier.name):
                    copy = replace(barrier, name=self.copy_of(barrier.name))
                    yield self.step_operation(replace(op, barrier=copy), forgotten)
            case amir.Record() if op.access.name not in self.names:
                if op.trailing is not None and op.trailing.home.name in self.names:
                    yield self.step_operation(replace(op, access=self.untold_window()), forgotten)
            case (
                amir.Record()
                | amir.Check()
                | amir.Clear()
                | amir.Initialise()
                | amir.CheckInitialised()
            ):
                if op.access.name in self.names:
                    yield self.step_operation(op, forgotten)
            case _:
                return

    def loop(self, op: amir.Loop, forgotten: frozenset[Sym]) -> Iterator[amir.Op]:
        """Yields what is done with the ring in a loop; how many iterations it has may be forgotten,
        and is then an unknown function of the step."""
        if not (control_variables(op.lo) | control_variables(op.hi)) & forgotten:
            inner = self.scope
            self.scope = (*inner, op.iterator)
            if body := tuple(self.block(op.body, forgotten)):
                yield replace(op, body=body)
            self.scope = inner
            return
        body = self.body_uses(op.body, forgotten | {op.iterator}, op.iterator)
        if body:
            self.check_accesses(body)
            end = ir.Add(ir.CVar(self.rounds.name), ir.Int(1))
            trips = self.unknown("trips", end, op.origin)
            inner_loop = replace(op, lo=ir.Int(0), hi=ir.CVar(trips.iterator), body=body)
            yield replace(trips, body=(inner_loop,))

    def guard(self, op: amir.Guard, forgotten: frozenset[Sym]) -> Iterator[amir.Op]:
        """Yields what is done with the ring under a condition, which may be forgotten, too."""
        if not control_variables(op.condition) & forgotten:
            if body := tuple(self.block(op.body, forgotten)):
                yield replace(op, body=body)
            return
        if body := self.body_uses(op.body, forgotten):
            self.check_accesses(body)
            truth = self.unknown("truth", ir.Int(2), op.origin)
            holds = ir.Compare("==", ir.CVar(truth.iterator), ir.Int(1))
            yield replace(truth, body=(replace(op, condition=holds, body=body),))

    def body_uses(self, block: amir.Block, forgotten: frozenset[Sym], *iterator: Sym) -> amir.Block:
        """Returns what a block does with the ring; commit groups begin anew in it."""
        scope, groups = self.scope, self.groups
        self.scope, self.groups = (*scope, *iterator), {}
        body = tuple(self.block(block, forgotten))
        begun = (amir.Alloc(name, self.task.origin) for name in self.groups.values())
        body = (*begun, *body) if body else ()
        self.scope, self.groups = scope, groups
        return body

    def check_accesses(self, body: amir.Block) -> None:
        """Raises _StaysError where a step synchronises by the ring's barriers or not."""
        for one in operations(body):
            if isinstance(one, amir.Arrive | amir.Await) and not self.is_copy(one):
                raise _StaysError
            if isinstance(one, amir.Record) and one.trailing is not None:
                raise _StaysError

    def unknown(self, name: str, end: ir.CExpr, origin: amir.Origin) -> amir.Loop:
        """A loop of one iteration, at an unknown function of the step and of the iterators."""
        source = amir.Variable(Sym(name), (ir.Int(1),) * len(self.scope), task_local=False)
        self.copies.append(source)
        at = tuple(ir.Point(ir.CVar(iterator)) for iterator in self.scope)
        load = ir.Access(source.name, at)
        return amir.Loop(Sym(name), ir.Int(0), end, (), origin, source=load)

    def is_copy(self, op: amir.Arrive | amir.Await) -> bool:
        """Tests whether it is of the commit group of a step."""
        return next(accesses_of(op)).name not in self.names

    def step_operation(self, op: amir.Op, forgotten: frozenset[Sym]) -> amir.Op:
        """The operation, if it is the same in each step.  Raises _StaysError."""
        read = _threads_read(op).union(*map(read_by, accesses_of(op)))
        if read & forgotten:
            raise _StaysError
        return op

    def is_group(self, name: Sym) -> bool:
        """Tests whether a barrier is a commit group, of which each thread has its own."""
        return self.variables[name].mechanism is BarrierMechanism.COMMIT_GROUP

    def copy_of(self, name: Sym) -> Sym:
        """The commit group of a block."""
        if name not in self.groups:
            copy = replace(self.variables[name], name=Sym(name.name))
            self.copies.append(copy)
            self.groups[name] = copy.name
        return self.groups[name]

    def untold_window(self) -> ir.Access:
        """A window of a variable that nothing checks, where a barrier alone is told."""
        name = next((one.name for one in self.copies if one.name.name == WINDOW), None)
        if name is None:
            name = Sym(WINDOW)
            self.copies.append(amir.Variable(name, (), task_local=False))
        return ir.Access(name, ())


def _renewed(op: amir.Op) -> amir.Op:
    """The same loops of slots as new objects: a loop stands in one place."""
    if isinstance(op, amir.Loop):
        return replace(op, body=tuple(_renewed(inner) for inner in op.body))
    return op


def _threads_read(op: amir.Op) -> frozenset[Sym]:
    """The iterators that tell which threads execute an operation."""
    threads = op.origin.threads
    axes = () if threads is None else threads.axes
    return frozenset[Sym]().union(*(control_variables(axis.offset) for axis in axes))
