"""One kernel launch as a `__global__` function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from exogpu.analysis.facts import Facts
from exogpu.codegen import (
    fits_int32,
    task_order,
)
from exogpu.codegen import (
    names as codegen_names,
)
from exogpu.codegen import (
    storage as codegen_storage,
)
from exogpu.codegen.control_text import C_TYPE, Control
from exogpu.codegen.device import Device, Path
from exogpu.codegen.fences_and_flags import Wait, increasing
from exogpu.codegen.fits_int32 import INT, size_ranges
from exogpu.codegen.hardware_barriers import LAST, NamedBarriers, split_barriers, turns
from exogpu.codegen.index_registers import slot_counters
from exogpu.codegen.instruction_text import note_helpers
from exogpu.codegen.mbarriers import Ring, barrier_bytes
from exogpu.codegen.proxies import proxies
from exogpu.codegen.render_files import KernelText
from exogpu.codegen.shared_counting import shared_by
from exogpu.codegen.short_loops import even_sizes
from exogpu.codegen.split_barriers import Barriers, initialisation
from exogpu.codegen.sync import arrivals_before_writes, emit, phase_completing_arrivals
from exogpu.codegen.task_loop import task_loop
from exogpu.codegen.task_order import TaskNest, TaskOrder, resident, task_nest
from exogpu.codegen.tensor_map_text import TensorMap, tensor_maps
from exogpu.ir import nodes as ir
from exogpu.ir.types import Space, Sym
from exogpu.ir.walk import accesses, walk, window_arguments


@dataclass(frozen=True, slots=True)
class Kernel:
    """An emitted kernel, and what its launch needs to know."""

    text: KernelText
    nests: tuple[TaskNest, ...]
    cluster_dim: int
    block_dim: int
    shared_bytes: int
    sizes: tuple[Sym, ...]
    """Control parameters and CPU iterators, the kernel's first parameters; data follow them."""
    data: tuple[Sym, ...]
    maps: tuple[TensorMap, ...]
    """The last parameters."""
    dependent: bool
    together: bool
    """All of its CTAs must be on the device at a time: their tasks wait for each other."""
    level: bool
    """It has no more clusters than take its tasks in as many rounds."""
    limits: tuple[ir.CExpr, ...]
    """The limits of sizes: values that must fit `int`, beside the sizes themselves."""
    distances: tuple[tuple[ir.CExpr, ...], ...]
    """Extents whose product must."""
    shared: tuple[tuple[codegen_storage.Storage, int], ...] = ()
    """The shared variables in the order of their allocation, with their byte offsets."""
    mbarriers: tuple[tuple[Ring, int], ...] = ()
    """The rings of mbarriers, likewise."""


@dataclass(frozen=True, slots=True)
class Source:
    """Input common to all kernels of a procedure."""

    facts: Facts
    storage: Mapping[Sym, codegen_storage.Storage]
    rings: Mapping[Sym, Ring]
    order: TaskOrder | None
    """None: the default of each nest."""
    followed: frozenset[ir.DeviceFunction]
    """The launches that a dependent one follows."""
    written: frozenset[Sym]
    """The variables that any of the launches writes."""
    waits: Mapping[ir.Await, Wait]
    """By Await of a flag, for how many arrivals."""


def kernel(
    source_: Source,
    launch: ir.DeviceFunction,
    outer: tuple[Sym, ...],
    name: str,
    helpers: list[str],
) -> Kernel:
    """The kernel of one `CudaDeviceFunction` block, inside CPU loops over the `outer` iterators."""
    offsets, reserved = barrier_bytes(launch, source_.rings)
    shared = codegen_storage.layout(launch, source_.storage, reserved)
    names = codegen_names.Names()
    params = [p for p in source_.facts.proc.params if isinstance(p, ir.ControlParam)]
    sizes = (*(p.name for p in params), *outer)
    used = _used_variables(launch)
    data = tuple(n for n, s in source_.storage.items() if s.space is Space.GLOBAL and n in used)
    maps = tensor_maps(launch)
    others = (
        4 * len(sizes)
        + codegen_storage.POINTER * len(data)
        + codegen_storage.TENSOR_MAP * len(maps)
    )
    fixed = codegen_storage.constants(used, source_.storage, others, launch.span)
    spelled = {n: names.declare(n) for n in (*sizes, *data, *fixed, *maps.values())}
    by_value, references = codegen_storage.declared(names, fixed, source_.storage)
    control = Control(names, even=even_sizes(source_.facts.proc))
    _bound_builtins(control, launch)
    control.nonnegative |= {p.name for p in params if p.kind == "size"}
    flags = frozenset(n for n in data if source_.storage[n].flag)
    order = increasing(source_.order, launch, flags)
    barriers = _barriers(source_, launch, offsets, names, control)
    body: codegen_names.Lines = emit("let dependents begin") if launch in source_.followed else []
    meet = any(storage.of_cluster for n, storage in source_.storage.items() if n in used)
    body += _start(barriers, launch, [spelled[n] for n in maps.values()], meet=meet)
    device = _devices(source_, launch, shared, barriers, maps, helpers)
    nests, lines = _tasks(launch, device, order)
    body += [*lines, *_end(launch)]
    if launch.dependent:
        # Whoever waits for this launch has waited for the one before it, too (decision
        # `dependent-launch`).
        body += emit("await launch")
    body = [*references, *_builtins(body, launch, shared), *body]
    note_helpers("\n".join(body), helpers)
    for needed, helper in ((maps, "TensorMap"), (fixed, "GridConstant")):
        if needed and helper not in helpers:
            helpers.insert(0, helper)
    parameters = (
        *(f"const int {spelled[n]}" for n in sizes),
        *_pointers(source_, launch, {n: spelled[n] for n in data}, flags),
        *by_value,
        *(f"const __grid_constant__ TensorMap {spelled[n]}" for n in maps.values()),
    )
    ranges = {**size_ranges(source_.facts.proc), **dict.fromkeys(outer, INT)}
    return Kernel(
        KernelText(name, launch.cluster_dim, _bounds(launch), parameters, tuple(body)),
        nests,
        launch.cluster_dim,
        launch.block_dim,
        shared.size,
        sizes,
        (*data, *fixed),
        tuple(maps),
        launch.dependent,
        bool(flags),
        all(task_order.level(nest, order, source_.storage, launch.cluster_dim) for nest in nests),
        fits_int32.limits(control, ranges, launch.span),
        fits_int32.distances(control, ranges, launch.span),
        tuple((source_.storage[n], shared.offsets[n]) for n in shared.order),
        tuple((source_.rings[n], at) for n, at in offsets.items()),
    )


def _barriers(
    source_: Source,
    launch: ir.DeviceFunction,
    offsets: Mapping[Sym, int],
    names: codegen_names.Names,
    control: Control,
) -> Barriers:
    facts, rings = source_.facts, source_.rings
    return Barriers(
        facts.mechanisms,
        rings,
        offsets,
        arrivals_before_writes(launch, facts.collective, source_.storage),
        phase_completing_arrivals(launch, rings),
        turns(launch, facts.collective, facts.mechanisms),
        slot_counters(launch, facts.collective, rings),
        split_barriers(launch, facts),
        names,
        control,
    )


def _devices(
    source_: Source,
    launch: ir.DeviceFunction,
    shared: codegen_storage.SharedLayout,
    barriers: Barriers,
    maps: Mapping[TensorMap, Sym],
    helpers: list[str],
) -> Callable[[Path], Device]:
    """Returns a function that makes each path's context for lowering statements."""
    facts, storage = source_.facts.collective, source_.storage
    named = NamedBarriers(min([LAST + 1, *(one.first for one in barriers.named.values())]) - 1)
    met = proxies(launch, facts, storage, shared)

    def device(path: Path) -> Device:
        return Device(
            facts,
            storage,
            shared,
            barriers.names,
            barriers.control,
            path,
            barriers,
            named,
            met,
            maps,
            source_.waits,
            shared_by(launch, facts, source_.rings, path.group if path.by_role else None),
            helpers=helpers,
        )

    return device


def _tasks(
    launch: ir.DeviceFunction, device: Callable[[Path], Device], order: TaskOrder | None
) -> tuple[tuple[TaskNest, ...], codegen_names.Lines]:
    """The nests of tasks, and the loops over them on each path."""
    resides = resident(launch)
    outside = (*resides, *(stmt for stmt in launch.body if isinstance(stmt, ir.Pass | ir.Free)))
    nests = tuple(task_nest(stmt) for stmt in launch.body if stmt not in outside)
    body: codegen_names.Lines = []
    for branch in _branches(launch):
        lines = [*branch.registers]
        for path in branch.paths:
            inside: codegen_names.Lines = []
            on_path = device(path)
            for nest in nests:
                inside += task_loop(on_path, nest, resides, order, launch.cluster_dim)
            lines += codegen_names.braces(branch.guards[path], inside) if path.by_role else inside
        body += codegen_names.braces(branch.guard, lines) if branch.guard else lines
    return nests, body


def _pointers(
    source_: Source, launch: ir.DeviceFunction, spelled: Mapping[Sym, str], flags: frozenset[Sym]
) -> Iterator[str]:
    """The parameters that are data.  Of what changes during the launch, __restrict__ would allow
    loads through the read-only cache, merged and moved over barriers."""
    changed = written_variables(launch.body) | flags
    if launch.dependent:  # The launches before it may still write.
        changed |= source_.written
    for name, text in spelled.items():
        dtype = C_TYPE[source_.storage[name].dtype]
        yield f"{dtype}* {text}" if name in changed else f"const {dtype}* __restrict__ {text}"


def _bounds(launch: ir.DeviceFunction) -> str:
    """The arguments of `__launch_bounds__`."""
    changes = any(g.setmaxnreg_dec or g.setmaxnreg_inc for g in launch.warps)
    several = changes or launch.min_blocks > 1
    return f"{launch.block_dim}, {launch.min_blocks}" if several else str(launch.block_dim)


def _bound_builtins(control: Control, launch: ir.DeviceFunction) -> None:
    counts = {
        codegen_names.THREAD: launch.block_dim,
        codegen_names.WARP: launch.block_dim // 32,
        codegen_names.LANE: 32,
    }
    for name, count in {**counts, codegen_names.CTA: launch.cluster_dim}.items():
        control.iterate(name, ir.Int(0), ir.Int(count))


# --- warp groups ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Branch:
    """Warp groups next to each other that change their registers alike: one `setmaxnreg`."""

    paths: tuple[Path, ...]
    guard: str
    guards: Mapping[Path, str]
    registers: tuple[str, ...]


def _branches(launch: ir.DeviceFunction) -> tuple[_Branch, ...]:
    """Warp groups, gathered by register change: all warps of a warpgroup must execute the same
    setmaxnreg (PTX ISA, setmaxnreg)."""
    if len(launch.warps) == 1:
        path = Path(launch.warps[0].name, by_role=False)
        return (_Branch((path,), "", {path: ""}, ()),)
    runs: list[list[tuple[ir.WarpConfig, int]]] = []
    at = 0
    for group in launch.warps:
        if runs and _change(runs[-1][-1][0]) == _change(group):
            runs[-1].append((group, at))
        else:
            runs.append([(group, at)])
        at += group.count
    found = []
    for number, run in enumerate(runs):
        end = run[-1][1] + run[-1][0].count
        guard = _chain(number, len(runs), end)
        guards = {}
        for inner, (group, start) in enumerate(run):
            path = Path(group.name, by_role=True, first=start, count=group.count)
            guards[path] = _chain(inner, len(run), start + group.count)
        found.append(_Branch(tuple(guards), guard, guards, _registers(run[0][0])))
    return tuple(found)


def _chain(number: int, count: int, end: int) -> str:
    """The condition of one of several neighbours, of which the last has the rest; none if alone."""
    if count == 1:
        return ""
    if number == count - 1:
        return "else"
    return f"{'else ' if number else ''}if (warp < {end})"


def _change(group: ir.WarpConfig) -> tuple[int, int]:
    return group.setmaxnreg_dec, group.setmaxnreg_inc


def _registers(group: ir.WarpConfig) -> tuple[str, ...]:
    for action, value in (("dec", group.setmaxnreg_dec), ("inc", group.setmaxnreg_inc)):
        if value:
            return (f'asm volatile("setmaxnreg.{action}.sync.aligned.u32 {value};");',)
    return ()


# --- what the kernel refers to --------------------------------------------------------------


def _builtins(
    body: codegen_names.Lines, launch: ir.DeviceFunction, shared: codegen_storage.SharedLayout
) -> codegen_names.Lines:
    """Definitions of the built-in variables that the body mentions."""
    lines: codegen_names.Lines = []
    if shared.size or _mentions(body, "smem"):  # variables without elements have an address, too
        lines.append("extern __shared__ __align__(1024) unsigned char smem[];")
    if (
        _mentions(body, codegen_names.THREAD.name)
        or _mentions(body, codegen_names.WARP.name)
        or _mentions(body, codegen_names.LANE.name)
    ):
        lines.append("const int thread = threadIdx.x;")
    if _mentions(body, codegen_names.WARP.name):
        lines.append("const int warp = __shfl_sync(0xffffffffu, thread / 32, 0);")
    if _mentions(body, codegen_names.LANE.name):
        lines.append("const int lane = thread % 32;")
    if _mentions(body, codegen_names.CTA.name):
        lines.append(f"const int cta = blockIdx.x % {launch.cluster_dim};")
    return lines


def _mentions(lines: codegen_names.Lines, name: str) -> bool:
    """Tests whether the text, comments aside, mentions a built-in variable: rows of the lowering
    table and templates of instructions spell them by hand."""
    text = "\n".join(line for line in lines if not line.strip().startswith("//"))
    return re.search(rf"(?<![\w.:]){name}\b", text) is not None


def _start(
    barriers: Barriers, launch: ir.DeviceFunction, maps: Sequence[str], *, meet: bool
) -> codegen_names.Lines:
    """Before the tasks: the mbarriers are initialised, and every thread of the cluster knows;
    tensor maps are on their way meanwhile.  CTAs that access each other's memory have `meet`."""
    prefetches = [f"prefetch_map({name});" for name in maps]
    inside = initialisation(barriers)
    start = (
        codegen_names.braces(f"if ({codegen_names.THREAD} == 0)", [*prefetches, *inside])
        if prefetches or inside
        else []
    )
    if inside:
        return [*start, *emit("fence cluster" if launch.cluster_dim > 1 else "fence cta")]
    return [*start, *(emit("meet CTAs") if meet and launch.cluster_dim > 1 else [])]


def _end(launch: ir.DeviceFunction) -> codegen_names.Lines:
    """After the tasks, where memory resided: no CTA of a cluster leaves while another may still
    arrive on its mbarriers or write its memory (decision `resident-memory`).  A CTA alone has
    nobody to wait for: its memory lives until all of its threads are over."""
    return emit("fence cluster") if launch.cluster_dim > 1 and resident(launch) else []


def _used_variables(launch: ir.DeviceFunction) -> frozenset[Sym]:
    """Returns the variables that the kernel has pointers to: tensor maps stand for their
    tensors."""
    found: set[Sym] = set()
    for stmt in walk(launch.body):
        if isinstance(stmt, ir.CallInstr):
            found |= {o.access.name for o in window_arguments(stmt) if o.param.window is None}
        else:
            found |= {a.name for a in accesses(stmt)}
    return frozenset(found)


def written_variables(block: ir.Block) -> frozenset[Sym]:
    """The variables that a statement or an instruction of a block writes."""
    found: set[Sym] = set()
    for stmt in walk(block):
        if isinstance(stmt, ir.CallInstr):
            found |= {
                operand.access.name for operand in window_arguments(stmt) if operand.is_written
            }
        else:
            found |= {target.name for target in _targets(stmt)}
    return frozenset(found)


def _targets(stmt: ir.Stmt) -> tuple[ir.Access, ...]:
    return (stmt.target,) if isinstance(stmt, ir.Assign | ir.Reduce) else ()
