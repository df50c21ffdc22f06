"""The one mechanism of rewriting: make the new procedure, have it checked, note the step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, wraps
from keyword import iskeyword
from time import perf_counter
from typing import Any, Concatenate, Final, ParamSpec, TypeGuard, TypeVar

from exogpu.analysis import bounds
from exogpu.analysis.bounds_messages import Outside
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError, Note, Span
from exogpu.frontend.calls import HasProc, InstrTemplate
from exogpu.frontend.limits import is_name
from exogpu.ir.nodes import Block, Proc, Stmt
from exogpu.ir.types import BarrierMechanism, CollUnit, DataMemory, SpecialWindow, Sym, SyncTL
from exogpu.schedule import derivations, step_cache
from exogpu.schedule.argument_types import Schedulable, misgiven
from exogpu.schedule.checking.checker import Objection, objection
from exogpu.schedule.checking.equivalence import same_results
from exogpu.schedule.checking.opened_procedure import same_but_for_silence
from exogpu.schedule.cursors import Cursor, Expression, Gap, Stretch, find, header
from exogpu.schedule.expression_parts import Inside, Where, forward
from exogpu.schedule.reparse import out_of_scope
from exogpu.schedule.rewrite import Path, Rewrite, block_at, is_plain, stmt_at

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
) -> Callable[..., derivations.P]:
    """A function that yields rewritings, the best first, as a step of a schedule.

    What it makes takes a procedure; cursors or patterns where `make` takes paths.  The first
    rewriting that the checker and the bounds accept counts.  Raises ExoGpuError: X990 where a
    pattern finds nothing, X991 where the primitive does not apply, X992 where what is computed
    would change, with the objection to the last rewriting, X993 where that is undecided.  With
    `well_formed`, X991 too where the new procedure breaks a rule that the old one keeps.
    """
    name = make.__name__

    @wraps(make)
    def step(procedure: derivations.P, *arguments: object, **options: object) -> derivations.P:
        start = perf_counter()
        old = derivations.without_slots(procedure)
        given = [_resolve_cursor(procedure, a) for a in arguments]
        chosen = {key: _resolve_cursor(procedure, a) for key, a in options.items()}
        refuse_misgiven(make, [old, *given], chosen, old)
        try:
            edits = make(old, *given, **chosen)  # type: ignore[arg-type]
            edit = _accepted(name, old, edits)
        except Unfit as unfit:
            span = _place(old, given) if unfit.stmt is None else unfit.stmt.span
            raise ExoGpuError(
                [Diagnostic("X991", f"{name}: {unfit.why}", span, unfit.remedy)]
            ) from None
        made = derivations.with_ir(procedure, edit.new)
        if not is_plain(edit) and (unread := _unread(procedure, made)) is not None:
            message = f"{name}: {unread.message} ({unread.code})"
            raise ExoGpuError([Diagnostic("X991", message, unread.span, unread.help)])
        if well_formed and (broken := broken_rule(procedure, made)) is not None:
            message = f"{name}: {broken.message} ({broken.code})"
            raise ExoGpuError([Diagnostic("X991", message, broken.span, broken.help, broken.notes)])
        taken = perf_counter() - start
        given_as = arguments_text(arguments, options)
        how = derivations.Derivation(
            parent=procedure,
            primitive=name,
            arguments=given_as,
            seconds=taken,
            forward=partial(forward, edit),
            edit=edit,
            assumed=_assumed(edit),
            within=derivations.higher_steps(),
        )
        derivations.record(made, how)
        return made

    return step


def refuse_misgiven(
    make: Callable[..., object],
    arguments: Sequence[object],
    options: Mapping[str, object],
    proc: Proc,
) -> None:
    """Raises ExoGpuError (X991) where a step of a procedure is given what it does not take."""
    if (wrong := misgiven(make, arguments, options)) is not None:
        message = f"{make.__name__}: {wrong}"
        raise ExoGpuError([Diagnostic("X991", message, proc.span, "give one of these")])


def _place(proc: Proc, given: Sequence[object]) -> Span:
    """Returns the place of the first argument's statement, or else of the procedure."""
    span = NOWHERE
    with suppress(Unfit, ExoGpuError):
        first = next(iter(given), None)
        path = gap_of(first)[0] if _is_gap(first) else path_of(proc, first)
        span = stmt_at(proc, path).span
    return proc.span if span == NOWHERE else span


def annotation(
    make: Callable[Concatenate[Proc, Args], Iterable[Rewrite]],
) -> Callable[..., derivations.P]:
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


def _unread(old: Schedulable, new: Schedulable) -> Diagnostic | None:
    """The first that is wrong with the text of a derived procedure and not with its parent's."""
    before = {(d.code, d.message) for d in old.refusals}
    return next((d for d in new.refusals if (d.code, d.message) not in before), None)


def _accepted(name: str, old: Proc, edits: Iterable[Rewrite]) -> Rewrite:
    last, refusal = None, None
    for last in edits:
        entry, refusal = step_cache.key(last), None
        accepted = None if entry is None else step_cache.load(entry)
        if accepted is None:
            refusal = refusal_of(name, last)
            accepted = refusal is None
            if entry is not None and (refusal is None or refusal.code != "X993"):
                step_cache.store(entry, accepted)
        if accepted:
            return last
    assert last is not None
    refusal = refusal or refusal_of(name, last)
    if refusal is None:
        return last
    raise ExoGpuError([refusal])


def _assumed(edit: Rewrite) -> tuple[str, ...]:
    """Returns the assumptions under which a rewriting was accepted."""
    return tuple(sorted({a for one in _stages(edit) for a in one.assumed}))


def refusal_of(name: str, edit: Rewrite) -> Diagnostic | None:
    """Returns the diagnostic that refuses a rewriting; None if it is accepted."""
    lost = out_of_scope(edit.new)
    if lost is not None:
        variable, stmt = lost
        message = f"{name}: {variable.name} would not be declared where `{header(stmt)}` stands"
        return Diagnostic("X991", message, stmt.span, "move its declaration outwards first")
    for stage in _stages(edit):
        found = _objection(stage)
        if found is not None:
            return _described(name, stage, found)
    for violation in bounds.violations(edit.new):
        what = violation.diagnostic
        before = "" if isinstance(violation.finding, Outside) else "the new procedure: "
        message = f"{name}: {before}{what.message}"
        return Diagnostic("X992", message, what.span, what.help, what.notes)
    return None


def _stages(edit: Rewrite) -> tuple[Rewrite, ...]:
    """The rewritings that a step is made of, the first one first."""
    return (edit,) if edit.after is None else (*_stages(edit.after), edit)


def _objection(edit: Rewrite) -> Objection | None:
    """Returns the objection to a rewriting; None if there is none."""
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
        message += f", in {found.element}" if found.element else ""
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


def _resolve_cursor(procedure: Schedulable, argument: object) -> object:
    """A cursor as a path of this procedure; anything else as it is."""
    match argument:
        case Cursor():
            return followed(procedure, argument).path
        case Gap():
            return (followed(procedure, argument.beside).path, argument.offset)
        case Expression():
            found = followed(procedure, argument)
            return Inside(found.statement.path, found.where)
        case Stretch():
            several = followed(procedure, argument)
            return Several(several.first.path, len(several))
        case list() | tuple():
            return type(argument)(_resolve_cursor(procedure, a) for a in argument)
        case _:
            return argument


AnyCursor = TypeVar("AnyCursor", Cursor[Any], Expression[Any], Stretch[Any])


def followed(procedure: derivations.P, cursor: AnyCursor) -> AnyCursor:
    """The cursor in a procedure that was derived from its own.

    An expression is followed by what it reads.  Raises ExoGpuError (X990) where the statement or
    expression is gone or the procedure another one.
    """
    if isinstance(cursor, Stretch):
        first, last = (_followed(procedure, end, None)[0] for end in (cursor.first, cursor.last))
        if first.path[:-1] != last.path[:-1] or first.path[-1][0] != last.path[-1][0]:
            raise _lost_statement(f"`{cursor}` are no longer in one block", cursor.first.stmt)
        ordered = sorted((first, last), key=lambda end: end.path[-1][1])
        return Stretch(*ordered)
    if isinstance(cursor, Expression):
        return Expression(*_followed(procedure, cursor.statement, cursor.where))  # type: ignore[arg-type]
    return _followed(procedure, cursor, None)[0]


def _lost_statement(message: str, stmt: Stmt) -> ExoGpuError:
    return ExoGpuError([Diagnostic("X990", message, stmt.span, "find what has become of it")])


def _followed(
    procedure: derivations.P, cursor: Cursor[derivations.P], where: Where | None
) -> tuple[Cursor[derivations.P], Where | None]:
    if not isinstance(cursor, Cursor):
        message, span = f"{cursor!r} is no cursor", derivations.ir_of(procedure).span
        raise ExoGpuError([Diagnostic("X990", message, span, "find one by a pattern")])
    steps = []
    for made, step in derivations.chain(procedure):
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
        after = step.forward(path, where)
        if after is None or (where is not None and after[1] is None):
            what = cursor if after is None else Expression(cursor, where or ())
            raise _lost_statement(f"`{what}` is gone since {step.primitive}", cursor.stmt)
        path, where = after
    try:
        stmt_at(derivations.ir_of(procedure), path)
    except (AttributeError, IndexError):
        message = f"the cursor is at no statement of {procedure.name}"
        span = derivations.ir_of(procedure).span
        raise ExoGpuError([Diagnostic("X990", message, span, "find it by a pattern")]) from None
    return Cursor(procedure, path), where


def path_of(proc: Proc, target: object) -> Path:
    """The path of a statement that is given as a pattern or already as a path.  Raises Unfit."""
    if isinstance(target, str):
        return find(_Bare(proc), target).path
    if isinstance(target, Several) and target.count == 1:
        return target.path
    if isinstance(target, Inside):
        return target.path
    if _is_path(target):
        return target
    raise Unfit("a statement is given by a pattern or by one cursor")


def several_of(proc: Proc, target: object, count: int = 1) -> tuple[Path, Block]:
    """The path of the first of several statements, and the statements.  Raises Unfit."""
    if isinstance(target, Several):
        path, count = target.path, target.count
    else:
        path = path_of(proc, target)
    at = path[-1][1]
    stmts = block_at(proc, path)[at : at + count] if isinstance(count, int) else ()
    if not stmts or not 1 <= count <= len(stmts):
        raise Unfit(f"there are no {count!r} statements", stmt_at(proc, path))
    return path, stmts


def first_of(proc: Proc, target: object) -> Path:
    """The path of the first of two statements: given itself, or both.  Raises Unfit."""
    if isinstance(target, Several) and target.count == 2:
        return target.path
    return path_of(proc, target)


@dataclass(frozen=True, slots=True)
class Several:
    """Statements of one block, as a primitive is given them."""

    path: Path
    count: int


def gap_of(target: object) -> tuple[Path, int]:
    """The path of the statement beside a place, and 1 where it is after it.  Raises Unfit."""
    if _is_gap(target):
        return target
    raise Unfit(
        "it takes a place, such as `find(p, pattern).after()`",
        remedy="give the place before() or after() a statement",
    )


def _is_gap(target: object) -> TypeGuard[tuple[Path, int]]:
    match target:
        case (path, int()):
            return _is_path(path)
        case _:
            return False


def _is_path(target: object) -> TypeGuard[Path]:
    if not isinstance(target, tuple) or not target:
        return False
    return all(isinstance(s, tuple) and len(s) == 2 and isinstance(s[0], str) for s in target)


def new_variable(name: object) -> Sym:
    """A new variable of the name.  Raises Unfit where it is no name."""
    if not isinstance(name, str) or not is_name(name) or iskeyword(name):
        raise Unfit(f"{name!r} is no name", remedy="give letters, digits and underlines")
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


def arguments_text(arguments: Iterable[object], options: Mapping[str, object]) -> tuple[str, ...]:
    """Arguments in words, as a history has them."""
    return (
        *map(_argument_text, arguments),
        *(f"{key}={_argument_text(a)}" for key, a in options.items()),
    )


def _argument_text(argument: object) -> str:
    match argument:
        case Cursor() | Expression() | Stretch():
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
            return f"[{', '.join(map(_argument_text, argument))}]"
        case _:
            return repr(argument)
