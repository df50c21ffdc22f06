"""`@instr`: a hardware instruction, defined by its meaning and its operands' annotations."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from textwrap import indent
from typing import TypeVar

from exogpu.diagnostics.errors import Diagnostic, ExoGpuError, Span
from exogpu.frontend import limits
from exogpu.frontend.instruction_templates import addressed, check_template
from exogpu.frontend.operand_checks import check_atomic
from exogpu.frontend.procedures import parameters, read_body, split_docstring, split_preconditions
from exogpu.frontend.scope import Constant, Context
from exogpu.frontend.source import Source, source_of
from exogpu.hw.units import standalone_thread
from exogpu.ir import nodes as ir
from exogpu.ir import types
from exogpu.ir.walk import accesses, reads, walk

# Instructions that work in place, element by element, on operands that are one window.


def check_in_place(
    name: str, named: tuple[str, ...], params: tuple[ir.Param, ...], body: ir.Block, span: Span
) -> Iterator[Diagnostic]:
    """Yields the reasons why an instruction cannot work in place on the parameters that it names
    (T245)."""
    data = {p.name.name: p for p in params if isinstance(p, ir.DataParam)}
    chosen = [data[n] for n in named if n in data]
    for missing in (n for n in named if n not in data):
        yield _refusal(name, f"{missing} is none of its data parameters", span)
    for param in chosen[1:]:
        if (param.shape, param.dtype) != (chosen[0].shape, chosen[0].dtype):
            other = chosen[0].name
            yield _refusal(name, f"{param.name} has not the type of {other}", param.span)
    if chosen and not _element_by_element(body, frozenset(p.name for p in chosen), ()):
        yield _refusal(name, "its body does not go element by element", span)


def _refusal(name: str, why: str, span: Span) -> Diagnostic:
    return Diagnostic(
        "T245",
        f"{name} does not work in place: {why}",
        span,
        "let the body be loops around one statement, which takes these operands at the index of "
        "all its iterators; or leave in_place out",
    )


def _element_by_element(
    block: ir.Block, names: frozenset[types.Sym], iterators: tuple[types.Sym, ...]
) -> bool:
    """Tests whether one statement an iteration takes the operands, at an index of its own."""
    match [stmt for stmt in block if not isinstance(stmt, ir.Pass)]:
        case []:
            return True
        case [ir.For() as loop]:
            return _element_by_element(loop.body, names, (*iterators, loop.iterator))
        case [ir.If() as branch]:
            return all(
                _element_by_element(part, names, iterators) for part in (branch.body, branch.orelse)
            )
        case [ir.Assign() | ir.Reduce() as stmt]:
            own = {ir.Point(ir.CVar(i)) for i in iterators}
            indices = [a.coords for a in accesses(stmt) if a.name in names]
            return all(set(index) == own and len(index) == len(own) for index in indices)
        case _:
            return False


T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class InstructionTemplate:
    # An instruction whose compile-time parameters are the keyword-only ones of its definition.
    # `instantiate(N=256)` gives the instruction; equal parameters give the same object.
    # Its __doc__ is that of the instruction, which `help` shows.

    source: Source
    unit: object
    cuda: bool
    barrier: types.BarrierMechanism | None
    barrier_required: bool
    barrier_units: object
    operands: Mapping[str, object]
    template: str | types.Memset | types.Memcpy
    arch: str
    in_place: tuple[str, ...]
    defaults: Mapping[str, object]
    _made: dict[tuple[object, ...], ir.Instr] = field(default_factory=dict, repr=False)

    @property
    def signature(self) -> str:
        """Prints the definition's first line, as its source has it."""
        function = self.source.function
        return f"{function.name}({ast.unparse(function.args)})"

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        function, unit = self.source.function, getattr(self.unit, "name", "depends on parameters")
        parts = [self.signature, ast.get_docstring(function) or ""]
        parts.append("Its meaning:\n\n" + indent(_meaning(function), "    "))
        facts = [f"Executed by: {unit}." if self.cuda else "Called on the CPU."]
        if self.arch:
            facts.append(f"Architecture: {self.arch}.")
        if self.barrier is not None:
            facts.append(f"Trailing barrier: {self.name}(...) >> z, a {self.barrier.value}.")
        return "\n\n".join([*(part for part in parts if part), " ".join(facts)])

    def __repr__(self) -> str:
        return f"<instruction {self.signature}>"

    @property
    def name(self) -> str:
        """The instruction's name."""
        return self.source.function.name

    @property
    def constant_names(self) -> tuple[str, ...]:
        """The compile-time parameters."""
        return tuple(a.arg for a in self.source.function.args.kwonlyargs)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The others: data and control."""
        arguments = self.source.function.args
        return tuple(a.arg for a in (*arguments.posonlyargs, *arguments.args))

    def instantiate(self, constants: Mapping[str, object]) -> ir.Instr:
        """The instruction for these compile-time parameters.

        Raises ExoGpuError where one is missing or does not fit.
        """
        values = {**self.defaults, **constants}
        missing = [n for n in self.constant_names if n not in values]
        if missing:
            needed = f"{self.name} needs compile-time parameters: {', '.join(missing)}"
            written = ", ".join(f"{name}=..." for name in missing)
            raise self._wrong(needed, f"write {written} in the call")
        key = tuple(_told_apart(values[n]) for n in self.constant_names)
        try:
            hash(key)
        except TypeError as error:
            remedy = "give integers, strings, or other values that do not change"
            raise self._wrong(f"a compile-time parameter cannot be kept: {error}", remedy) from None
        if key not in self._made:
            self._made[key] = self._make(values)
        return self._made[key]

    def _wrong(self, message: str, help: str) -> ExoGpuError:
        place = self.source.span(self.source.function)
        return ExoGpuError([Diagnostic("T221", message, place, help)])

    def _evaluate_annotation(
        self, what: str, value: object, values: Mapping[str, object], kind: type[T]
    ) -> T:
        """An annotation of the decorator; a function of compile-time parameters is applied."""
        if callable(value):
            try:
                names = inspect.signature(value).parameters
                value = value(*(values[n] for n in names))
            except Exception as error:  # the user's own function: it may raise anything
                message = f"{what} of {self.name} fails: {type(error).__name__}: {error}"
                raise self._wrong(message, "mend the function in the decorator") from None
        if not isinstance(value, kind):
            message = f"{what} of {self.name} is {value!r}, not a {kind.__name__}"
            raise self._wrong(message, f"give a {kind.__name__} in the decorator")
        return value

    def _check_constants(self, data: list[ir.DataParam], body: ir.Block) -> None:
        """Checks that kernels only read what is passed by value, and that only the CPU accesses it.

        So it needs no synchronisation (decision `host-lifetime`).
        """
        for param in data:
            if param.memory.space is not types.Space.GRID_CONSTANT or param.operand is None:
                continue
            name = param.name.name
            if self.cuda and access_mode(param, body) is not types.AccessMode.READ:
                message = f"{self.name} writes {name}, which a kernel takes by value"
                raise self._wrong(message, f"let {name} be @ CudaGmemLinear")
            if not self.cuda and param.operand.initial is not types.QualTL.CPU:
                message = (
                    f"{self.name} accesses {name} on the stream, later than it is called, and a "
                    "launch takes what is passed by value when it is called"
                )
                remedy = "copy to memory @ DRAM, Fence(cuda_stream_sync, cpu_in_order), assign"
                raise self._wrong(message, remedy)

    def _annotated(self, param: ir.DataParam, operand: types.Operand) -> ir.DataParam:
        param = replace(param, operand=operand)
        if not self.cuda or not isinstance(self.template, str):
            return param
        return addressed(param, self.template, self.source.span(self.source.function))

    def _make(self, values: Mapping[str, object]) -> ir.Instr:
        if wrong := tuple(limits.refusals(self.source)):
            raise ExoGpuError(wrong)
        ctx = Context(self.source, instruction=True, cuda=self.cuda, in_task=self.cuda)
        for name, value in values.items():
            ctx.declare(name, Constant(value))
        function = self.source.function
        params = parameters(function, ctx)
        doc, body = split_docstring(function.body)
        preconditions, body = split_preconditions(body, ctx)
        for precondition in preconditions:
            if isinstance(precondition, ir.Truth) and not precondition.value:
                ctx.diagnostics.append(
                    Diagnostic(
                        "T221",
                        f"{self.name} does not exist with these compile-time parameters",
                        precondition.span,
                        "use parameters that satisfy this precondition",
                    )
                )
        inside = read_body(body, ctx)
        if not ctx.diagnostics:
            at = self.source.span(function)
            ctx.diagnostics += check_in_place(self.name, self.in_place, params, inside, at)
        if ctx.diagnostics:
            raise ExoGpuError(ctx.diagnostics)
        operands = {
            n: self._evaluate_annotation(f"operand {n}", v, values, types.Operand)
            for n, v in self.operands.items()
        }
        data = [p for p in params if isinstance(p, ir.DataParam)]
        if odd := {p.name.name for p in data} ^ set(operands):
            remedy = "give the decorator one Operand for each data parameter, by its name"
            raise self._wrong(f"{self.name}: operands and data differ in {sorted(odd)}", remedy)
        refused = check_template(self.name, self.template, self.cuda, params, values)
        if refused is not None:
            raise self._wrong(*refused)
        barrier_units = self._evaluate_annotation(
            "barrier_units", self.barrier_units, values, tuple
        )
        params = tuple(
            self._annotated(p, operands[p.name.name]) if isinstance(p, ir.DataParam) else p
            for p in params
        )
        self._check_constants([p for p in params if isinstance(p, ir.DataParam)], inside)
        if orders := tuple(check_atomic(self.name, params, inside, self.source.span(function))):
            raise ExoGpuError(orders)
        return ir.Instr(
            name=self.name,
            constants=tuple((n, values[n]) for n in self.constant_names),
            params=params,
            preconditions=tuple(p for p in preconditions if not isinstance(p, ir.Contract)),
            body=inside,
            cuda=self.cuda,
            unit=self._evaluate_annotation("the unit", self.unit, values, types.CollUnit),
            trailing=self.barrier,
            trailing_required=self.barrier_required,
            trailing_units=barrier_units,
            modes=tuple(access_mode(p, inside) for p in data),
            template=self.template,
            arch=self.arch,
            in_place=frozenset(p.name for p in data if p.name.name in self.in_place),
            span=self.source.span(function),
            doc=doc,
        )


def instr(
    *,
    unit: types.CollUnit | Callable[..., types.CollUnit] = standalone_thread,
    cuda: bool = True,
    barrier: types.BarrierMechanism | None = None,
    barrier_required: bool = True,
    barrier_units: tuple[types.CollUnit, ...] | Callable[..., tuple[types.CollUnit, ...]] = (),
    template: str | types.Memset | types.Memcpy = "",
    arch: str = "",
    in_place: tuple[str, ...] = (),
    **operands: types.Operand | Callable[..., types.Operand],
) -> Callable[[Callable[..., None]], InstructionTemplate]:
    """Define an instruction: its body is its meaning, in sequential loops.

    `unit` must execute a call; each data parameter has its annotations in `operands`, by name;
    `barrier` is the mechanism of the trailing barrier, its interval coordinates distributed over
    `barrier_units`; `arch` is the one architecture that has the instruction, where not all do;
    `in_place` names the parameters that may be one and the same window, since it works element by
    element on them.
    `template` is the emitted text, its fields the parameters; at CPU scope a Memset, a Memcpy, or
    a text too.  Keyword-only parameters of the function are compile-time parameters; `unit`,
    `barrier_units` and operands may be functions of them.
    """

    def decorate(function: Callable[..., None]) -> InstructionTemplate:
        source = source_of(function, sys._getframe(1))
        defaults = dict(inspect.signature(function).parameters)
        return InstructionTemplate(
            source=source,
            unit=unit,
            cuda=cuda,
            barrier=barrier,
            barrier_required=barrier_required,
            barrier_units=barrier_units,
            operands=operands,
            template=template,
            arch=arch,
            in_place=in_place,
            defaults={n: p.default for n, p in defaults.items() if p.default is not p.empty},
        )

    return decorate


def _meaning(function: ast.FunctionDef) -> str:
    """Prints the body of an instruction's definition without its docstring."""
    skipped = 1 if ast.get_docstring(function) is not None else 0
    return "\n".join(ast.unparse(stmt) for stmt in function.body[skipped:])


def access_mode(param: ir.DataParam, body: ir.Block) -> types.AccessMode:
    """Read-only, write-only or read-write, from the uses of the parameter in the body."""
    read = written = False
    for stmt in walk(body):
        match stmt:
            case ir.Assign():
                written |= stmt.target.name == param.name
                read |= any(a.name == param.name for a in reads(stmt.value))
            case ir.Reduce():
                written |= stmt.target.name == param.name
                read |= stmt.target.name == param.name
                read |= any(a.name == param.name for a in reads(stmt.value))
            case _:
                pass
    if not written:
        return types.AccessMode.READ
    return types.AccessMode.READ_WRITE if read else types.AccessMode.WRITE


def _told_apart(value: object) -> object:
    """A key that equal values of two types do not share: 1, True, 1.0; nor 0.0 and -0.0."""
    if isinstance(value, tuple):
        return (tuple, *map(_told_apart, value))
    return (type(value), repr(value) if isinstance(value, float) else value)
