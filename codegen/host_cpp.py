"""The CPU part of a procedure as C++: one function that puts everything on one stream, in order.

Two texts: a C header, and a `.cu` that includes the kernels' own.  `nvcc -shared` makes a shared
object of the latter that needs nothing of this package; see the templates `header.h.j2` and
`host.cu.j2`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from exogpu.analysis.domain import least
from exogpu.codegen import device, scalar_text
from exogpu.codegen.access import Accesses
from exogpu.codegen.control_text import (
    C_TYPE,
    SIZE_OF,
    Control,
    c_condition,
    c_control,
    c_factor,
    is_nonnegative,
)
from exogpu.codegen.fits_int32 import check_host, size_ranges
from exogpu.codegen.instruction_text import (
    argument_of,
    constant_text,
    grouped,
    helper_text,
    note_helpers,
    run_of,
)
from exogpu.codegen.kernel_text import Kernel, written_variables
from exogpu.codegen.names import TEMPLATE, Lines, Names, braces, unsupported
from exogpu.codegen.render_files import (
    ContractText,
    HeaderText,
    HostText,
    render_header,
    render_host,
)
from exogpu.codegen.storage import Storage
from exogpu.codegen.tensor_map_text import TensorMap
from exogpu.diagnostics.verdict import Policy
from exogpu.ir import nodes as ir
from exogpu.ir.contracts import contract_text
from exogpu.ir.types import DataType, Memcpy, Memset, QualTL, Space, Sym
from exogpu.ir.walk import accesses, walk

MAPPED_TYPE: Mapping[DataType, int] = {
    DataType.UI8: 0,
    DataType.I8: 0,
    DataType.F8E4M3: 0,
    DataType.F8E5M2: 0,
    DataType.UI16: 1,
    DataType.UI32: 2,
    DataType.I32: 3,
    DataType.UI64: 4,
    DataType.I64: 5,
    DataType.F16: 6,
    DataType.F32: 7,
    DataType.F64: 8,
    DataType.BF16: 9,
}
"""CUtensorMapDataType, which has one type of bytes: copies are the same, and sums are refused."""

MAPPED_TF32: Final = 11
"""The type of a map of f32 that is rounded to tf32."""

SWIZZLE: Mapping[int, int] = {0: 0, 32: 1, 64: 2, 128: 3}
"""CUtensorMapSwizzle, by bytes."""


_IN_TEMPLATE: Final = frozenset({"floor_div", "floor_mod"})


@dataclass(frozen=True, slots=True)
class HostFiles:
    """The texts of `<name>.h` and `<name>_host.cu`."""

    header: str
    source: str


@dataclass(frozen=True, slots=True)
class Host:
    """Context for lowering the statements of the CPU part."""

    storage: Mapping[Sym, Storage]
    kernels: Mapping[ir.Stmt, Kernel]
    access: Accesses
    names: Names
    control: Control
    parameters: frozenset[Sym]
    """Data that the caller owns."""
    copied: frozenset[Sym]
    """Memory of the host that calls of the stream access (decision `host-lifetime`)."""
    dependents: bool
    """A launch depends on another: then `launched` says if the last thing on the stream was a
    kernel that had tasks."""


def host_files(text: HostText) -> HostFiles:
    """The C header and the host function."""
    return HostFiles(render_header(text.header), render_host(text))


def host_text(
    proc: ir.Proc, storage: Mapping[Sym, Storage], kernels: Mapping[ir.Stmt, Kernel]
) -> HostText:
    """Lowers the CPU part to C++. Raises ExoGpuError (G806) for what has no lowering."""
    names = Names()
    for word in (*TEMPLATE.split(), *(made.text.name for made in kernels.values())):
        names.declare(Sym(word))
    control = Control(names)
    changed = written_variables(proc.body)
    parameters, checks = [], []
    for param in proc.params:
        name = names.declare(param.name)
        match param:
            case ir.ControlParam():
                parameters.append(f"long long {name}")
                if param.kind == "size":
                    control.nonnegative.add(param.name)
                    checks.append(f"{name} >= {least(proc, param.name)}")
            case ir.DataParam():
                const = "" if param.name in changed else "const "
                parameters.append(f"{const}{C_TYPE[param.dtype]}* {name}")
    checks += [c_condition(p, control) for p in proc.preconditions]
    arrays = [p for p in proc.params if isinstance(p, ir.DataParam)]
    aligned = [names(p.name) for p in arrays if p.memory.space is Space.GLOBAL]
    owned = frozenset(p.name for p in arrays)
    dependents = any(made.dependent for made in kernels.values())
    accessed = Accesses(storage, names, control)
    copied = frozenset(
        a.name
        for s in walk(proc.body)
        if isinstance(s, ir.CallInstr) and not s.instr.cuda
        for a in accesses(s)
        if storage[a.name].space is Space.HOST
    )
    host = Host(storage, kernels, accessed, names, control, owned, copied, dependents)
    body = _block(host, proc.body)
    if dependents:
        body = ["[[maybe_unused]] bool launched = false;", *body]
    check_host(control, size_ranges(proc), proc.span)
    helpers: list[str] = []
    note_helpers("\n".join(body), helpers)
    described = tuple(
        f"{names(p.name)}: {p.dtype.value}[{', '.join(c_control(n, control) for n in p.shape)}] in "
        + ("device memory" if p.memory.space is Space.GLOBAL else "host memory")
        for p in arrays
    )
    sizes = tuple(names(p.name) for p in proc.params if isinstance(p, ir.ControlParam))
    extents = {p.name: ", ".join(c_control(n, control) for n in p.shape) for p in arrays}
    contracts = tuple(
        ContractText(
            contract_text(c.kind, names(c.array), c.least),
            c.kind,
            names(c.array),
            extents[c.array],
            "INT64_MIN" if c.least is None else str(c.least),
        )
        for c in proc.contracts
    )
    header = HeaderText(proc.name, tuple(parameters), sizes, tuple(checks), described, contracts)
    texts = tuple(helper_text(name) for name in helpers if name not in _IN_TEMPLATE)
    maps = any(k.maps for k in kernels.values())
    copies = any(isinstance(s, ir.Alloc) and s.name in copied for s in walk(proc.body))
    return HostText(header, texts, tuple(aligned), tuple(body), maps, copies)


def _block(host: Host, block: ir.Block) -> Lines:
    with host.names.scope():
        return [line for stmt in block for line in _statement(host, stmt)]


def _statement(host: Host, stmt: ir.Stmt) -> Lines:
    match stmt:
        case ir.DeviceFunction():
            return [device.source(stmt), *_launch(host, host.kernels[stmt])]
        case ir.CallInstr():
            return [device.source(stmt), *_stream_call(host, stmt)]
        case ir.For(mode=ir.Seq()):
            return [device.source(stmt), *_loop(host, stmt)]
        case ir.If():
            head = f"if ({c_condition(stmt.condition, host.control)})"
            lines = braces(head, _block(host, stmt.body))
            if stmt.orelse:
                lines[-1:] = braces("} else", _block(host, stmt.orelse))
            return [device.source(stmt), *lines]
        case ir.Alloc():
            return [device.source(stmt), *_allocation(host, stmt)]
        case ir.BarrierAlloc():
            return [device.source(stmt), *_flag(host, stmt)]
        case ir.Free():
            known = host.storage.get(stmt.name)
            if stmt.name in host.copied:
                return [f"{host.names(stmt.name)}.release();"]
            if known is None or known.space is not Space.GLOBAL:
                return []
            after = ["launched = false;"] if host.dependents else []
            return [f"TRY({host.names(stmt.name)}.free());", *after]
        case ir.Fence():
            waits = ["TRY(cudaStreamSynchronize(stream));"] if _waits(stmt) else []
            return [device.source(stmt), *waits]
        case ir.Assign() | ir.Reduce():
            return [device.source(stmt), _scalar(host, stmt)]
        case ir.Pass() | ir.Uninit():
            return []
        case _:
            raise _unsupported(stmt)


def _waits(fence: ir.Fence) -> bool:
    """Tests whether the CPU depends on earlier work of the stream: enqueued work is in order."""
    first, second = fence.pre.sets_under(Policy.PTX).full, fence.post.sets_under(Policy.PTX).full
    return bool(first - {QualTL.CPU}) and QualTL.CPU in second


def _unsupported(stmt: ir.Stmt, help: str = "") -> Exception:
    return unsupported(
        "this statement of the CPU part has no lowering",
        stmt.span,
        help or "use loops, conditions, stream instructions, launches, and data in host memory",
        "G806",
    )


def _loop(host: Host, stmt: ir.For) -> Lines:
    first, end = c_control(stmt.lo, host.control), c_control(stmt.hi, host.control)
    host.control.iterate(stmt.iterator, stmt.lo, stmt.hi)
    with host.names.scope():
        name = host.names.declare(stmt.iterator)
        if is_nonnegative(stmt.lo, host.control):
            host.control.nonnegative.add(stmt.iterator)
        inside = _block(host, stmt.body)
    return braces(f"for (long long {name} = {first}; {name} < {end}; ++{name})", inside)


# --- launches -------------------------------------------------------------------------------


def _launch(host: Host, kernel: Kernel) -> Lines:
    """The tensor maps, the number of tasks, and the launch, in a block of their own."""
    names = host.names
    with names.scope():
        maps = {m: names.declare(Sym(f"{m.tensor.name}_map")) for m in kernel.maps}
        made: Lines = []
        for used, name in maps.items():
            made += _tensor_map(host, used, name)
        counts = [
            f"tasks({{{', '.join(c_control(n, host.control) for n in nest.counts)}}})"
            for nest in kernel.nests
        ]
        most = counts[0] if len(counts) == 1 else f"std::max({{{', '.join(counts)}}})"
        values = [f"&sizes[{at}]" for at in range(len(kernel.sizes))]
        for data in kernel.data:
            values.append(_argument(host, data))
        values += [f"&{name}" for name in maps.values()]
        if kernel.sizes:
            narrowed = ", ".join(f"(int){names(n)}" for n in kernel.sizes)
            made.append(f"int sizes[] = {{{narrowed}}};")
        made.append(f"void* arguments[] = {{{', '.join(values)}}};")
        shape = f"{kernel.cluster_dim}, {kernel.block_dim}, {kernel.shared_bytes}"
        rest = f"{shape}, arguments, stream{_launch_options(kernel)}"
        inside = [*_check_limits(host, kernel), f"const long long task_count = {most};"]
        made.append(f"TRY(launch({kernel.text.name}, task_count, {rest}));")
        # Of an array without elements there is no map, and without tasks none is asked for.
        inside += braces("if (task_count > 0)", made) if maps else made
        if host.dependents:
            inside.append("launched = task_count > 0;")
    return braces("", inside)


def _launch_options(kernel: Kernel) -> str:
    """The last argument of `launch`, without what is as usual at its end."""
    told = [
        ("early", "launched" if kernel.dependent else "false"),
        ("together", "true" if kernel.together else "false"),
        ("level", "true" if kernel.level else "false"),
    ]
    while told and told[-1][1] == "false":
        told.pop()
    return f", {{{', '.join(f'/* {name} */ {text}' for name, text in told)}}}" if told else ""


def _check_limits(host: Host, kernel: Kernel) -> Lines:
    """Returns a status of its own where the kernel cannot compute all of its indices."""
    owned = frozenset(host.control.bounds)
    narrow = [host.names(n) for n in kernel.sizes if n in owned]
    control = Control(lambda name: f"wide({host.names(name)})")
    products = [
        f"elements({{{', '.join(c_control(n, host.control) for n in extents)}}})"
        for extents in kernel.distances
    ]
    texts = (*narrow, *(c_control(n, control) for n in kernel.limits), *products)
    return [
        line for text in texts for line in (f"if (!fits({text}))", "    return EXOGPU_TOO_LARGE;")
    ]


def _argument(host: Host, data: Sym) -> str:
    """Returns the address of a kernel's argument: a pointer, or the constants themselves."""
    variable = host.storage[data]
    if variable.space is Space.GRID_CONSTANT:
        return f"const_cast<{C_TYPE[variable.dtype]}*>({_pointer(host, data)})"
    local = data not in host.parameters
    return f"&{host.names(data)}{'.pointer' if local else ''}"


def _tensor_map(host: Host, used: TensorMap, name: str) -> Lines:
    variable = host.storage[used.tensor]
    shape = ", ".join(c_control(n, host.control) for n in variable.shape)
    pointer = _pointer(host, used.tensor)
    dtype = MAPPED_TF32 if used.tf32 else MAPPED_TYPE[variable.dtype]
    what = f"{dtype}, {SIZE_OF[variable.dtype]}, {SWIZZLE[used.swizzle]}"
    return [
        f"TensorMap {name};",
        f"TRY(encode({name}, {pointer}, {{{shape}}}, "
        f"{{{', '.join(map(str, used.box))}}}, {what}));",
    ]


# --- memory ---------------------------------------------------------------------------------


def _allocation(host: Host, stmt: ir.Alloc) -> Lines:
    """Device memory from the stream's pool, host memory from the heap."""
    name, dtype = host.names.declare(stmt.name), C_TYPE[stmt.dtype]
    count = f"elements({{{', '.join(c_control(n, host.control) for n in stmt.shape)}}})"
    match stmt.memory.space:
        case Space.GLOBAL:
            return [
                f"DeviceArray<{dtype}> {name}(stream);",
                f"TRY({name}.allocate({count}));",
            ]
        case Space.HOST if stmt.name in host.copied:
            return [f"HostArray<{dtype}> {name}(stream);", f"TRY({name}.allocate({count}));"]
        case Space.HOST | Space.GRID_CONSTANT:
            if stmt.memory.space is Space.GRID_CONSTANT and not host.storage[stmt.name].elements:
                count = "1"  # that a launch copies: see `codegen.storage`
            return [f"std::vector<{dtype}> {name};", f"TRY(host_array({name}, {count}));"]
        case _:
            raise _unsupported(stmt)


def _flag(host: Host, stmt: ir.BarrierAlloc) -> Lines:
    """Counts in device memory, 0 before the launch whose tasks raise them."""
    name = host.names.declare(stmt.name)
    count = f"elements({{{', '.join(c_control(n, host.control) for n in stmt.shape)}}})"
    after = ["launched = false;"] if host.dependents else []
    return [
        f"DeviceArray<int> {name}(stream);",
        f"TRY({name}.allocate({count}));",
        f"TRY({name}.zero({count}));",
        *after,
    ]


def _pointer(host: Host, name: Sym) -> str:
    spelled = host.names(name)
    if name in host.parameters:
        return spelled
    return f"{spelled}.pointer" if host.storage[name].space is Space.GLOBAL else f"{spelled}.data()"


def _stream_call(host: Host, stmt: ir.CallInstr) -> Lines:
    """Fills the template of an instruction with its windows.

    A text has the parameters as fields: of a window a pointer, and its `bytes`.
    """
    template = stmt.instr.template
    match template:
        case Memset():
            to = _bytes(host, stmt, template.target)
            return [f"TRY(cudaMemsetAsync({to}, {template.byte}, {to.bytes}, stream));"]
        case Memcpy():
            to, of = (_bytes(host, stmt, name) for name in (template.to, template.of))
            kind = f"cudaMemcpy{template.kind}"
            return [f"TRY(cudaMemcpyAsync({to}, {of}, {to.bytes}, {kind}, stream));"]
        case "":
            raise unsupported(
                f"{stmt.instr.name} has no emitted text yet",
                stmt.span,
                "give its definition a template: Memset, Memcpy, or a text",
                "G804",
            )
        case _:
            fields = {
                param.name.name: _bytes(host, stmt, param.name.name)
                if isinstance(param, ir.DataParam)
                else c_control(cast(ir.CExpr, argument), host.control)
                for param, argument in zip(stmt.instr.params, stmt.arguments, strict=True)
            }
            constants = {n: constant_text(value) for n, value in stmt.instr.constants}
            return grouped(template, stmt).format(**fields, **constants).split("\n")


@dataclass(frozen=True, slots=True)
class _Bytes:
    """Adjacent elements as C++ text: a pointer, and how many bytes there are."""

    pointer: str
    bytes: str

    def __format__(self, spec: str) -> str:
        return self.pointer


def _bytes(host: Host, stmt: ir.CallInstr, parameter: str) -> _Bytes:
    window = argument_of(stmt, parameter)
    variable = host.storage[window.name]
    run = run_of(variable, window, stmt)
    counts = (c_factor(n, host.control) for n in run.extents)
    count = " * ".join([f"(size_t){SIZE_OF[variable.dtype]}", *counts])
    return _Bytes(f"&{_pointer_at(host, window)}", count)


def _pointer_at(host: Host, access: ir.Access) -> str:
    text = host.access.first_element(access)
    spelled = host.names(access.name)
    return _pointer(host, access.name) + text.removeprefix(spelled)


def _scalar(host: Host, stmt: ir.Assign | ir.Reduce) -> str:
    def dtype_of(name: Sym) -> DataType:
        return host.storage[name].dtype

    if any(scalar_text.halves(stmt, dtype_of)):
        raise _unsupported(stmt, "16-bit elements are computed with in kernels only")
    return scalar_text.statement(stmt, dtype_of, lambda access: _pointer_at(host, access))
