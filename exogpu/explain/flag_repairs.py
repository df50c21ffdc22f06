"""Repairs of tasks that a flag does not order: an Arrive or an Await that is missing, stands where
only some threads execute it, comes too early, or names the wrong element."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from exogpu.amir import nodes as amir
from exogpu.amir.walk import is_task, operations
from exogpu.explain import edits
from exogpu.explain.apply_edits import places
from exogpu.explain.repairs import are_tasks
from exogpu.explain.value_repairs import without_constant
from exogpu.hw.timelines import ORDINARY
from exogpu.ir.nodes import Access, Add, CExpr, CVar, Int, Interval, Point, Sub
from exogpu.ir.render import access as access_text
from exogpu.ir.types import Sym
from exogpu.ir.walk import substitute_access
from exogpu.machine.observer import Violation


def flag_repairs(violation: Violation, program: amir.Program | None) -> tuple[edits.Repair, ...]:
    """Lists what may order the tasks of a violation by a flag that the kernel has."""
    if program is None:
        return ()
    flags = [v.name for v in program.variables if v.counts_all]
    at_fault = any(name.name == violation.variable for name in flags)
    if not flags or not (at_fault or are_tasks(violation)):
        return ()
    return tuple(repair for flag in flags for repair in _of_flag(violation, program, flag))


def _of_flag(violation: Violation, program: amir.Program, flag: Sym) -> Iterator[edits.Repair]:
    ops = {op.origin.span: op for op in operations(program.body)}.values()
    arrives = [op for op in ops if isinstance(op, amir.Arrive) and op.home.name is flag]
    awaits = [op for op in ops if isinstance(op, amir.Await) and op.barrier.name is flag]
    syncs: list[amir.Arrive | amir.Await] = [*arrives, *awaits]
    for op in syncs:
        text = f"let more threads execute line {op.origin.span.line}"
        yield edits.Repair(text, edits.Hoisted(op))
    last = _last_of_tasks(program)
    for arrive in arrives if last is not None else ():
        assert last is not None
        text = f"let the Arrive at line {arrive.origin.span.line} come last"
        yield edits.Repair(text, edits.Moved(arrive, last), edits.Cost.NOTHING)
    raised = arrives[0].home if arrives else None
    earlier = None if raised is None else _element_of_earlier_task(violation, raised)
    for wait in awaits if earlier is not None else ():
        assert earlier is not None
        if earlier != wait.barrier:
            line, element = wait.origin.span.line, _spelled(earlier)
            text = f"let Await at line {line} wait on {element}, which the earlier task raises"
            yield edits.Repair(text, edits.OnElement(wait, _points(earlier)))
    if not arrives and last is not None:
        for own in _own_elements(program, flag, awaits):
            text = f"add an Arrive on {_spelled(own)} after the last access of the task"
            yield edits.Repair(text, edits.NewArrive(last, own, ORDINARY, after=True))
    if earlier is not None and isinstance(violation.check, amir.Check):
        for place in places(program, violation.check):
            text = f"add an Await of {_spelled(earlier)} before line {place.origin.span.line}"
            wait_first = edits.NewAwait(place, earlier, ORDINARY, 0)
            yield edits.Repair(text, wait_first, edits.Cost.ORDER)


def _last_of_tasks(program: amir.Program) -> amir.Op | None:
    """The last operation of a task; None where there is none."""
    for op in operations(program.body):
        if isinstance(op, amir.Loop) and is_task(op):
            return next((one for one in reversed(op.body) if one.origin.ends is None), None)
    return None


def _element_of_earlier_task(violation: Violation, raised: Access) -> Access | None:
    """The element of a flag that the task of the first access raises, as that of the second names
    it: by how far its iterators are behind."""
    now, then = dict(violation.iteration), dict(violation.record_iteration or ())
    behind: dict[Sym, CExpr] = {}
    for coord in raised.coords:
        if isinstance(coord, Interval):
            return None
        match coord.at:
            case CVar(name) if name.name in now and name.name in then:
                by = now[name.name] - then[name.name]
                if by > 0:
                    behind[name] = Sub(CVar(name), Int(by))
                elif by < 0:
                    behind[name] = Add(CVar(name), Int(-by))
            case _:
                pass
    return substitute_access(raised, behind)


def _own_elements(program: amir.Program, flag: Sym, awaits: list[amir.Await]) -> Iterator[Access]:
    """The elements that a task may raise: as it awaits those of others, without a distance; or by
    the iterators of tasks."""
    for wait in awaits:
        coords = [
            Point(without_constant(c.at)) for c in wait.barrier.coords if isinstance(c, Point)
        ]
        yield replace(wait.barrier, coords=tuple(coords))
    if not awaits:
        (variable,) = (v for v in program.variables if v.name is flag)
        loops = [o for o in operations(program.body) if isinstance(o, amir.Loop) and o.tasks]
        if len(variable.shape) <= len(loops):
            used = loops[: len(variable.shape)]
            yield Access(flag, tuple(Point(CVar(loop.iterator)) for loop in used))


def _points(access: Access) -> tuple[CExpr, ...]:
    return tuple(coord.at for coord in access.coords if isinstance(coord, Point))


def _spelled(access: Access) -> str:
    return access_text(access, lambda name: name.name)
