"""`@proc` and what can be done with a procedure."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from inspect import isasyncgenfunction, iscoroutinefunction
from numbers import Real
from types import FrameType
from typing import TYPE_CHECKING, NoReturn, cast, overload

from exogpu.analysis.inline import inline
from exogpu.analysis.sizes import check_sizes
from exogpu.diagnostics.errors import NOWHERE, Diagnostic, ExoGpuError, InternalError
from exogpu.diagnostics.verdict import Policy, Proving, Verdict
from exogpu.frontend import future_import
from exogpu.frontend.limits import bad_name, is_name, is_too_large_inlined, large_when_inlined
from exogpu.frontend.procedures import parse_proc
from exogpu.ir.nodes import Proc
from exogpu.ir.printer import print_proc, print_signature
from exogpu.machine import fast
from exogpu.pipeline import check as pipeline_check
from exogpu.pipeline.stages import Stages
from exogpu.report.notebook import card
from exogpu.solvers.processes import Limits

if TYPE_CHECKING:
    from exogpu.codegen.compiled_kernel import CompiledKernel
    from exogpu.codegen.host_steps import Emitted
    from exogpu.codegen.runtime.manifest import Json
    from exogpu.codegen.task_order import TaskOrder
    from exogpu.report.notebook import Animated
    from exogpu.schedule.checking.equivalence import Equivalence


future_import.install()

_collector: ContextVar[list[Procedure] | None] = ContextVar("collector", default=None)


def _unheard(verdict: Verdict) -> None:
    """Nobody is told."""


@contextmanager
def collecting() -> Iterator[list[Procedure]]:
    """Within it, `@proc` gathers procedures, ill-formed ones too, instead of raising."""
    found: list[Procedure] = []
    token = _collector.set(found)
    try:
        yield found
    finally:
        _collector.reset(token)


class Procedure(Stages):
    """A procedure of the language, immutable.

    `ir` is None, and `diagnostics` says why, if its definition was refused.
    """

    def __init__(
        self,
        name: str,
        ir: Proc | None,
        diagnostics: tuple[Diagnostic, ...],
        made_in: str = "",
        inlined: Proc | None = None,
    ) -> None:
        super().__init__(name, ir, diagnostics, inlined, made_in)
        self._verdicts: dict[Policy, Verdict] = {}

    def check(
        self,
        *,
        policy: Policy | str = Policy.PTX,
        heard: Callable[[Verdict], None] = _unheard,
        progress: Callable[[Proving], None] | None = None,
        timeout: float | None = None,
        memory: float | None = None,
        **sizes: object,
    ) -> Verdict:
        """The verdict for all sizes: proved, refuted at the smallest failing sizes, or undecided.

        A proof is a set of obligations that a solver has answered; a refutation is replayed on
        the abstract machine.  A procedure without sizes that cannot be proved is run on it, any
        other that is undecided at its smallest sizes.  `timeout` is in seconds, `memory` in
        gigabytes, by default half of the machine's; a check that has to be stopped is undecided.
        The last quarter of the time is kept for the smallest sizes.  The answer is remembered.
        Of what is refuted `heard` is told with each further hazard, and `progress`, of a proof,
        how many obligations are answered.  What is proved and has no
        lowering has `warnings`, those that `compile` would raise.
        """
        refuse_sizes(self.name, sizes)
        policy, limits = Policy.from_name(policy), _limits(timeout, memory)
        if policy in self._verdicts:
            return self._verdicts[policy]
        found = pipeline_check.check(self, policy, limits, heard, progress)
        if found.stopped is None:
            self._verdicts[policy] = found.verdict
        return found.verdict

    def check_at(
        self,
        *,
        policy: Policy | str = Policy.PTX,
        progress: Callable[[fast.Progress], None] | None = None,
        timeout: float | None = None,
        memory: float | None = None,
        **sizes: int,
    ) -> Verdict:
        """The verdict at concrete sizes, by running the abstract machine.

        A refutation has one hazard for each kind, variable and pair of statements.  `timeout`
        is in seconds, `memory` in gigabytes, by default half of the machine's; a check that has
        to be stopped is undecided.
        """
        limits = _limits(timeout, memory)
        return pipeline_check.check_at(self, Policy.from_name(policy), sizes, limits, progress)

    def run(self, *unnamed: object, **arguments: object) -> None:
        """The sequential meaning, on numpy arrays, in place; sizes may follow from shapes.

        It is what the loops say when they are read one iteration after another, as in
        `p.run(M=4, x=x, y=y)`.  No threads run, so that no race shows: `check` finds those.
        Arguments go by name.  Raises ExoGpuError for an ill-formed procedure or arguments that do
        not fit.
        """
        if unnamed:
            raise TypeError(f"run takes arguments by name: {self.name}.run({self._call_text})")
        if self.diagnostics:
            raise ExoGpuError(self.diagnostics)
        assert self.ir is not None
        # Only here: numpy takes as long to load as a proof.
        from exogpu import interpreter

        interpreter.run(self.ir, arguments)

    def renamed(self, name: str) -> Procedure:
        """Gives the same procedure another name, which emitted symbols have too."""
        ir = None if self.ir is None else replace(self.ir, name=name)
        return Procedure(name, ir, self.diagnostics, self.made_in)

    def history(self) -> str:
        """Returns its derivation, a line a step; its name alone if it was written."""
        from exogpu.schedule import derivations

        return derivations.history(self)

    def equivalent_to(self, other: Procedure) -> Equivalence:
        """Decides whether both compute the same for all sizes, their results compared directly.

        Sums are sets of terms: they may be added up in another order.  Raises ExoGpuError where
        one of them is ill-formed.
        """
        from exogpu.schedule.checking.equivalence import equivalent

        return equivalent(self, other)

    def compile(
        self,
        arch: str = "sm_90a",
        *,
        at: Mapping[str, int] | None = None,
        unchecked: bool = False,
        policy: Policy | str = Policy.PTX,
        task_order: TaskOrder | None = None,
        timeout: float | None = None,
        memory: float | None = None,
    ) -> CompiledKernel:
        """The procedure as a kernel that can be called: `p.compile()(A, B, C)`.

        What is not proved for all sizes needs sizes to check it `at`, or `unchecked`; `manifest`
        says which it was.  Raises RefusedError, an ExoGpuError with the verdict, for what is
        refuted or not proved, ExoGpuError for what has no lowering, and CompileError where there
        is no compiler or it refuses.  `timeout` and `memory` are the checks'.
        """
        from exogpu.codegen.compiled_kernel import compile_emitted

        emitted, manifest = self.emit(
            arch,
            at=at,
            unchecked=unchecked,
            policy=policy,
            task_order=task_order,
            timeout=timeout,
            memory=memory,
        )
        return compile_emitted(emitted, manifest)

    def emit(
        self,
        arch: str = "sm_90a",
        *,
        at: Mapping[str, int] | None = None,
        unchecked: bool = False,
        policy: Policy | str = Policy.PTX,
        task_order: TaskOrder | None = None,
        arrive_all: bool = False,
        timeout: float | None = None,
        memory: float | None = None,
    ) -> tuple[Emitted, dict[str, Json]]:
        """Returns the input of the compilers in `compile`: CUDA C++ and the manifest. It needs no
        CUDA.

        With `arrive_all` every thread arrives on mbarriers by itself, for race checkers.
        """
        from exogpu.pipeline import stages
        from exogpu.pipeline.stages import Target, policy_for_hardware

        check: Callable[[], Verdict] | None = None
        check_at: Callable[[], Verdict] | None = None
        if not unchecked:
            rules = policy_for_hardware(policy)
            check = partial(self.check, policy=rules, timeout=timeout, memory=memory)
            if at is not None:
                limits, sizes = _limits(timeout, memory), _sizes(at)
                check_at = partial(pipeline_check.check_at, self, rules, sizes, limits, None)
        return stages.emit(self, Target(arch, task_order, arrive_all), check, check_at)

    def __repr__(self) -> str:
        if self.ir is None and self.refusals:
            return f"<procedure {self.name}: ill-formed>"
        signature = self.name if self.ir is None else print_signature(self.ir)
        return f"<procedure {signature}>"

    def __call__(self, *arguments: object, **by_name: object) -> NoReturn:
        """Says what to write: a procedure has no call of its own in Python."""
        raise TypeError(
            f"{self.name}(...) is written in the body of another procedure. From Python, "
            f"{self.name}.run({self._call_text}) computes its meaning on numpy arrays, and "
            f"{self.name}.compile()(...) launches it on arrays of a GPU"
        )

    def __getitem__(self, grid: object) -> NoReturn:
        """Says what to write: the program, and not its caller, gives a launch its grid."""
        raise TypeError(
            f"{self.name}[...] names no grid: cuda_tasks loops say how many tasks a launch has. "
            f"{self.name}.compile()(...) launches it"
        )

    @property
    def _call_text(self) -> str:
        """Names the parameters as a call of `run` gives them: `n=..., x=...`."""
        params = () if self.ir is None else self.ir.params
        return ", ".join(f"{param.name.name}=..." for param in params)

    def _repr_html_(self) -> str:
        """The procedure as a notebook shows it: its text, or what is wrong with it; the verdict, if
        it was checked; who executes it, and its timeline step by step."""
        from exogpu.report.notebook import widget

        wrong = [(f"{d.code} line {d.span.line}", d.message) for d in self.refusals]
        text = "" if self.ir is None else print_proc(self.ir)
        known = next(iter(self._verdicts.values()), None)
        if wrong or known is None:
            shown = card(repr(self).strip("<>"), "error" if wrong else "", wrong, text)
        else:
            shown = known._repr_html_() + card("", "", (), text)
        hazard = known.hazards[0] if known is not None and known.hazards else None
        return shown + widget(self, hazard=hazard)

    def animate(self, **sizes: int) -> Animated:
        """The first task of a kernel step by step, for a notebook to show: what each role does,
        who waits for whom, and what the slots of each barrier's ring hold.

        Without sizes they can be chosen among the smallest at which the main loop runs so often.
        Raises ExoGpuError for an ill-formed procedure, and for sizes that do not fit.
        """
        from exogpu.report.notebook import Animated, widget

        if self.diagnostics:
            raise ExoGpuError(self.diagnostics)
        assert self.ir is not None
        if sizes and (wrong := check_sizes(self.ir, sizes)):
            raise ExoGpuError(wrong)
        shown = widget(self, sizes or None, choice=not sizes)
        return Animated(self.name, sizes, shown)


def refuse_sizes(name: str, sizes: Mapping[str, object]) -> None:
    """Raises TypeError for sizes that `check` is given: it answers for all of them."""
    if sizes:
        given = ", ".join(f"{size}={value!r}" for size, value in sizes.items())
        raise TypeError(
            f"check answers for all sizes and takes none: write {name}.check_at({given})"
        )


def _limits(timeout: object, memory: object) -> Limits:
    """Makes the limits of a check. Raises ExoGpuError (X907) for what is no number of at least
    0."""
    for name, value in (("timeout", timeout), ("memory", memory)):
        number = isinstance(value, Real) and not isinstance(value, bool) and float(value) >= 0
        if value is not None and not number:
            raise ExoGpuError(
                [Diagnostic("X907", f"{name} is {value!r}", NOWHERE, "give a number of at least 0")]
            )
    return Limits(cast("float | None", timeout), cast("float | None", memory))


def _sizes(at: object) -> dict[str, int]:
    """Sizes by name.  Raises ExoGpuError (X905) for what is none of these."""
    if isinstance(at, Mapping) and all(isinstance(name, str) for name in at):
        return dict(at)
    raise ExoGpuError(
        [Diagnostic("X905", f"{at!r} gives no sizes by name", NOWHERE, "give a dict of integers")]
    )


def _module_file(frame: FrameType | None) -> str:
    """The file that is executed where a frame stands: of its innermost module."""
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame.f_code.co_filename if frame is not None else ""


def _read_function(
    function: Callable[..., None], frame: FrameType
) -> tuple[Proc | None, tuple[Diagnostic, ...], Proc | None]:
    """The IR, which every pass can follow, or all that is wrong; and the IR inlined.

    Raises ExoGpuError for what is no function of a file, and InternalError where reading fails.
    """
    try:
        ir, diagnostics = parse_proc(function, frame)
    except ExoGpuError as error:
        if not (iscoroutinefunction(function) or isasyncgenfunction(function)):
            raise
        ir, diagnostics = None, error.diagnostics  # a definition of a file, if of another kind
    except (InternalError, MemoryError):
        raise
    except Exception as error:
        raise InternalError(f"reading {function!r}: {type(error).__name__}: {error}") from error
    if ir is None:
        return None, diagnostics, None
    inlined = _inlined(ir)
    if inlined is None:
        return None, (large_when_inlined(ir),), None
    return ir, diagnostics, inlined


def _typed(frame: FrameType) -> bool:
    """Tests whether a definition is typed into a notebook, whose reader sees what it prints."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and frame.f_globals.get("__name__") == "__main__"


def _inlined(ir: Proc) -> Proc | None:
    """None where that is too large."""
    try:
        flat = inline(ir)
        return None if flat is not ir and is_too_large_inlined(flat.body) else flat
    except RecursionError:
        return None


@overload
def proc(function: Callable[..., None]) -> Procedure: ...
@overload
def proc(*, name: str | None = None) -> Callable[[Callable[..., None]], Procedure]: ...
def proc(
    function: Callable[..., None] | None = None, *, name: str | None = None
) -> Procedure | Callable[[Callable[..., None]], Procedure]:
    """Read a function as a procedure of the language: it is parsed, never executed.

    `name` is the procedure's name where it is not the function's, as for kernels made by a
    function of their configuration.  What is ill-formed is made all the same, so that the others
    of its module can be used: its first use raises ExoGpuError with all that is wrong, and `check`
    says it.  In a notebook its cell says so, too.  Raises ExoGpuError for what is no function.
    """
    frame = sys._getframe(1)

    def decorate(function: Callable[..., None]) -> Procedure:
        ir, diagnostics, inlined = _read_function(function, frame)
        given = function.__name__ if name is None or not is_name(name) else name
        if ir is not None and name is not None:
            wrong = () if given == name else (bad_name(name, ir.span),)
            ir, diagnostics = (None, wrong) if wrong else (replace(ir, name=name), ())
            inlined = None if inlined is None else replace(inlined, name=name)
        made = Procedure(given, ir, diagnostics, _module_file(frame), inlined)
        collected = _collector.get()
        if collected is not None:
            collected.append(made)
        elif name is not None and given != name:
            raise ExoGpuError(diagnostics)
        elif diagnostics and _typed(frame):
            print(made.check())
        return made

    return decorate if function is None else decorate(function)
