"""The one mechanism of rewriting: make the new procedure, have it checked, note the step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial, wraps
from keyword import iskeyword
from time import perf_counter
from typing import Concatenate, Final, ParamSpec, TypeGuard, TypeVar

from exogpu.analysis import bounds
from exogpu.analysis.bounds_report import Outside
from exogpu.frontend.callables import HasProc, InstrTemplate
from exogpu.frontend.limits import is_name
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Proc, Stmt
from exogpu.ir.types import BarrierMechanism, CollUnit, DataMemory, SpecialWindow, SyncTL
from exogpu.result.errors import NOWHERE, Diagnostic, ExoGpuError, Note
from exogpu.schedule.checker import Objection, objection
from exogpu.schedule.cursors import Cursor, Gap, find, header
from exogpu.schedule.equivalence import same_results
from exogpu.schedule.procedures import (
    Derivation,
    P,
    Schedulable,
    chain,
    ir_of,
    record,
    with_ir,
)
from exogpu.schedule.rewrite import Path, Rewrite, forward
from exogpu.schedule.scopes import out_of_scope
from exogpu.schedule.silent import same_but_for_silence

Args = ParamSpec("Args")
T = TypeVar("T")


class Unfit(Exception):
    """A primitive does not apply to the statement that it was given."""

    def __init__(self, why: str, stmt: Stmt | None = None, remedy: str = "") -> None:
        super().__init__(why)
        self.why, self.stmt = why, stmt
        self.remedy = remedy or "choose another statement, or bring this one into that form first"


def primitive(
    make: Callable[Concatenate[Proc, Args], Iterable[Rewrite]], *, well_formed: bool = False
) -> Callable[..., P]:
    """A function that yields rewritings, the best first, as a step of a schedule.

    What it makes takes a procedure; cursors or patterns where `make` takes paths.  The first
    rewriting that the checker and the bounds accept counts.  Raises ExoGpuError: X990 where a
    pattern finds nothing, X991 where the primitive does not apply, X992 where what is computed
    would change, with the objection to the last rewriting, X993 where that is undecided.  With
    `well_formed`, X991 too where the new procedure breaks a rule that the old one keeps.
    """
    name = make.__name__

    @wraps(make)
    def step(procedure: P, *arguments: object, **options: object) -> P:
        start = perf_counter()
        old = ir_of(procedure)
        given = [_resolved(procedure, a) for a in arguments]
        chosen = {key: _resolved(procedure, a) for key, a in options.items()}
        try:
            edits = make(old, *given, **chosen)  # type: ignore[arg-type]
            edit = _accepted(name, old, edits)
        except Unfit as unfit:
            span = old.span if unfit.stmt is None else unfit.stmt.span
            raise ExoGpuError(
                [Diagnostic("X991", f"{name}: {unfit.why}", span, unfit.remedy)]
            ) from None
        made = with_ir(procedure, edit.new)
        if well_formed and (broken := broken_rule(procedure, made)) is not None:
            message = f"{name}: {broken.message} ({broken.code})"
            raise ExoGpuError([Diagnostic("X991", message, broken.span, broken.help, broken.notes)])
        said = (*map(_said, arguments), *(f"{key}={_said(a)}" for key, a in options.items()))
        taken = perf_counter() - start
        after = partial(forward, edit)
        record(made, Derivation(procedure, name, said, taken, after, edit))
        return made

    return step


def annotation(make: Callable[Concatenate[Proc, Args], Iterable[Rewrite]]) -> Callable[..., P]:
    """A primitive whose result must be as well-formed as what it was given."""
    return primitive(make, well_formed=True)


INCOMPLETE: Final = frozenset({"T228"})
"""Rules that ask for synchronisation which a later step may add."""


def broken_rule(old: Schedulable, new: Schedulable) -> Diagnostic | None:
    """The first rule that a derived procedure breaks and its parent does not."""
    before = Counter((d.code, d.message) for d in old.diagnostics)
    for found in new.diagnostics:
        key = (found.code, found.message)
        if before[key] == 0 and found.code not in INCOMPLETE:
            return found
        before[key] -= 1
    return None


def _accepted(name: str, old: Proc, edits: Iterable[Rewrite]) -> Rewrite:
    refusals: list[Diagnostic] = []
    for edit in edits:
        refusal = refused(name, edit)
        if refusal is None:
            return edit
        refusals.append(refusal)
    raise ExoGpuError(refusals[-1:])


def refused(name: str, edit: Rewrite) -> Diagnostic | None:
    """Why a rewriting is refused; None if it is accepted."""
    lost = out_of_scope(edit.new)
    if lost is not None:
        variable, stmt = lost
        message = f"{name}: {variable.name} would not be declared where `{header(stmt)}` stands"
        return Diagnostic("X991", message, stmt.span, "move its declaration outwards first")
    found = _judged(edit)
    if found is not None:
        return _described(name, edit, found)
    for violation in bounds.violations(edit.new):
        what = violation.diagnostic
        before = "" if isinstance(violation.finding, Outside) else "the new procedure: "
        message = f"{name}: {before}{what.message}"
        return Diagnostic("X992", message, what.span, what.help, what.notes)
    return None


def _judged(edit: Rewrite) -> Objection | None:
    """What speaks against a rewriting."""
    if same_but_for_silence(edit.old, edit.new):
        return None
    if not edit.by_results:
        return objection(edit)
    compared = same_results(edit.old, edit.new)
    kind = {"equivalent": "", "different": "FLOW", "undecided": "UNDECIDED"}[compared.word]
    return Objection(kind, compared.reason) if kind else None


def _described(name: str, edit: Rewrite, found: Objection) -> Diagnostic:
    code = "X993" if found.kind == "UNDECIDED" else "X992"
    between = [s for s in (found.first, found.second) if s is not None]
    quoted = " and ".join(f"`{header(s)}`{_line(s)}" for s in dict.fromkeys(between))
    at = ", ".join(f"{k} = {v}" for k, v in (found.sizes or {}).items())
    message = f"{name}: {found.message}"
    if quoted:
        message += f": {quoted}"
    if found.sizes is not None:
        message += f"; first at {at}" if at else "; at every size"
    spans = [s.span for s in between if s.span != NOWHERE]
    notes = tuple(Note("the other statement", span) for span in spans[1:])
    remedy = (
        "use smaller steps, or a precondition"
        if code == "X993"
        else "give a precondition or option under which it is right, or another step"
    )
    return Diagnostic(code, message, spans[0] if spans else edit.old.span, remedy, notes)


def _line(stmt: Stmt) -> str:
    return f" (line {stmt.span.line})" if stmt.span.line else ""


# --- arguments ------------------------------------------------------------------------------


def _resolved(procedure: Schedulable, argument: object) -> object:
    """A cursor as a path of this procedure; anything else as it is."""
    match argument:
        case Cursor():
            return followed(procedure, argument).path
        case Gap():
            return (followed(procedure, argument.beside).path, argument.offset)
        case list() | tuple():
            return type(argument)(_resolved(procedure, a) for a in argument)
        case _:
            return argument


def followed(procedure: P, cursor: Cursor[P]) -> Cursor[P]:
    """The cursor in a procedure that was derived from its own.

    Raises ExoGpuError (X990) where the statement is gone or the procedure another one.
    """
    steps = []
    for made, step in chain(procedure):
        if made is cursor.procedure:
            break
        steps.append(step)
    else:
        origin = steps[-1].parent if steps else procedure
        if origin is not cursor.procedure:
            message = f"the cursor `{cursor}` is of another procedure"
            help_ = "find it in this one"
            raise ExoGpuError([Diagnostic("X990", message, cursor.stmt.span, help_)])
    path: Path = cursor.path
    for step in reversed(steps):
        after = step.forward(path)
        if after is None:
            message = f"`{cursor}` is gone since {step.primitive}"
            help_ = "find what has become of it"
            raise ExoGpuError([Diagnostic("X990", message, cursor.stmt.span, help_)])
        path = after
    return Cursor(procedure, path)


def path_of(proc: Proc, target: object) -> Path:
    """The path of a statement that is given as a pattern or already as a path.  Raises Unfit."""
    if isinstance(target, str):
        return find(_Bare(proc), target).path
    if _is_path(target):
        return target
    raise Unfit("a statement is given by a pattern or by one cursor")


def gap_of(target: object) -> tuple[Path, int]:
    """The path of the statement beside a place, and 1 where it is after it.  Raises Unfit."""
    if isinstance(target, tuple) and len(target) == 2:
        path, offset = target
        if _is_path(path) and isinstance(offset, int):
            return path, offset
    raise Unfit("it takes a place, such as `find(p, pattern).after()`")


def _is_path(target: object) -> TypeGuard[Path]:
    if not isinstance(target, tuple) or not target:
        return False
    return all(isinstance(s, tuple) and len(s) == 2 and isinstance(s[0], str) for s in target)


def named(name: object) -> Sym:
    """A new variable of the name.  Raises Unfit where it is no name."""
    if not isinstance(name, str) or not is_name(name) or iskeyword(name):
        raise Unfit(f"{name!r} is no name")
    return Sym(name)


class _Bare:
    """IR as a procedure, to be searched."""

    name: str
    made_in: str
    ir: Proc | None
    refusals: tuple[Diagnostic, ...]
    diagnostics: tuple[Diagnostic, ...]

    def __init__(self, ir: Proc) -> None:
        self.name, self.made_in, self.ir = ir.name, "", ir
        self.refusals = self.diagnostics = ()


def _said(argument: object) -> str:
    match argument:
        case Cursor():
            return f"`{argument}`"
        case Gap():
            return f"{'after' if argument.offset else 'before'} `{argument.beside}`"
        case DataMemory() | SyncTL() | CollUnit() | SpecialWindow():
            return argument.name
        case HasProc(ir=Proc() as ir):
            return ir.name
        case InstrTemplate():
            return str(getattr(argument, "name", "an instruction"))
        case BarrierMechanism():
            return argument.value
        case tuple() | list():
            return f"[{', '.join(map(_said, argument))}]"
        case _:
            return repr(argument)
