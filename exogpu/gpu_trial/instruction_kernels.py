"""Small kernels that show whether an instruction's text does what its body says.

    @instr(unit=cuda_thread, dst=CUDA_REGISTER, src=CUDA_MEMORY, template="cuda_load<{n}>(...);")
    def cuda_load(dst: dtype[n] @ CudaRmem, src: dtype[n] @ CudaDeviceVisibleLinear, *, n=4, ...)

becomes a kernel with random numbers in both operands, one call, and a look at both afterwards; for
each value of the compile-time parameters, each argument, and each memory that an operand admits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any, Final

from exogpu.diagnostics.errors import ExoGpuError
from exogpu.frontend.instructions import InstructionTemplate
from exogpu.gpu_trial import operand_values
from exogpu.ir import nodes as ir
from exogpu.ir.render import control
from exogpu.ir.types import BarrierMechanism, DataType, QualTL, Space
from exogpu.ir.walk import walk

VALUES: Final[Mapping[str, tuple[object, ...]]] = {
    "dtype": tuple(DataType),
    "M": (16, 64, 128),
    "N": (8, 16, 24, 64, 120, 256),
    "K": (4, 8, 16),
    "n": (1, 2, 3, 4, 8, 16),
    "mask": (1, 2, 4, 8, 16),
    "delta": (1, 5, 16, 31, 32),
    "lane": (0, 13, 31),
    "rows": (8, 16, 64),
    "cols": (4, 8, 16, 32, 64),
    "stride": (1, 2),
    "swizzle": (0, 32, 64, 128),
}
"""Values at which a compile-time parameter of a name is tried, beside its default."""

ARGUMENTS: Final = (0, 1, 3, 5, 10, 1000)
"""Values at which an index argument is tried."""

UNITS: Final[Mapping[str, tuple[int, int]]] = {
    "standalone_thread": (64, 64),
    "cuda_thread": (64, 64),
    "cuda_warp": (64, 2),
    "cuda_warpgroup": (128, 1),
}
"""Threads of the CTA, and how many units of the instruction it has."""

_ASYNC: Final[Mapping[QualTL, str]] = {
    QualTL.SM80: operand_values.fence("Sm80_generic", "cuda_in_order"),
    QualTL.TMA_G: operand_values.fence("tma_to_gmem_async", "cuda_in_order"),
    QualTL.WG_A: operand_values.fence("wgmma_async", "cuda_in_order"),
    QualTL.WG_D: operand_values.fence("wgmma_async", "cuda_in_order"),
    QualTL.WG_S: operand_values.fence("wgmma_async", "cuda_in_order"),
}
"""The statement that waits for operands of a timeline."""

_WGMMA: Final = frozenset({QualTL.WG_A, QualTL.WG_D, QualTL.WG_S, QualTL.WG_0})


@dataclass(frozen=True, slots=True)
class Variant:
    """An instruction with its compile-time parameters, arguments and places of operands."""

    template: InstructionTemplate
    constants: tuple[tuple[str, object], ...]
    arguments: tuple[int, ...]
    places: tuple[str, ...]

    def __str__(self) -> str:
        said = [f"{n}={spelled(v)}" for n, v in self.constants]
        said += [str(a) for a in self.arguments]
        said += [p for p in self.places if p != "own"]
        return f"{self.template.name}({', '.join(said)})"


def spelled(value: object) -> str:
    """A compile-time parameter as a call has it."""
    return value.value if isinstance(value, DataType) else repr(value)


def variants(
    template: InstructionTemplate, given: Mapping[str, tuple[object, ...]], seed: int = 0
) -> Iterator[Variant]:
    """All that can be tried, the same for a seed: the defaults, then in random order.

    `given` replaces values.
    """
    names = template.constant_names
    choices = [_values(template, name, given) for name in names]
    first, *combinations = product(*choices)
    rng = Random(f"{template.name} {seed}")
    rng.shuffle(combinations)
    for values in (first, *combinations):
        constants = dict(zip(names, values, strict=True))
        if constants.get("box", 0) is None:
            constants["box"] = _box(constants)
        try:
            made = template.instantiate(constants)
        except ExoGpuError:
            continue  # it does not exist with these parameters
        data = [p for p in made.params if isinstance(p, ir.DataParam)]
        indices = [p for p in made.params if isinstance(p, ir.ControlParam)]
        places_ = list(product(*(operand_values.places(p) for p in data)))
        arguments = tuple(rng.choice(ARGUMENTS) for _ in indices)
        yield Variant(template, tuple(constants.items()), arguments, rng.choice(places_))


def _values(
    template: InstructionTemplate, name: str, given: Mapping[str, tuple[object, ...]]
) -> tuple[object, ...]:
    if name in given:
        return given[name]
    default = template.defaults.get(name)
    if name == "box":
        return (None,)  # follows from the tile
    known = VALUES.get(name, ())
    if not known and isinstance(default, DataType):
        known = tuple(DataType)
    if not known and isinstance(default, int):
        known = (1, 2, 2 * default)
    return tuple(dict.fromkeys((*(() if default is None else (default,)), *known)))


def _box(constants: Mapping[str, Any]) -> tuple[int, ...]:
    """One box moves the tile; of a multicast, each CTA's slice."""
    return (1, constants["rows"] // constants.get("n", 1), constants["cols"])


# --- the program --------------------------------------------------------------------------------


class NotTried(Exception):
    """An instruction of a kind that no trial is known for."""


def program(variant: Variant, name: str, header: str) -> str:
    """The source of a procedure that tries a variant; `header` imports the instruction.

    Raises NotTried.
    """
    made = variant.template.instantiate(dict(variant.constants))
    head = [
        "from __future__ import annotations",
        "",
        "from exogpu import *",
        "from exogpu.isa.i8 import *",
        "from exogpu.isa.sm80 import *",
        "from exogpu.isa.sm90 import *",
        header,
        "",
        "",
        "@proc",
    ]
    try:
        parameters, body = _on_the_cpu(variant, made) if not made.cuda else _kernel(variant, made)
    except KeyError as error:
        raise NotTried(f"its shapes depend on an argument ({error})") from None
    text = [f"def {name}({', '.join(parameters)}):", *operand_values.lines(body, 1)]
    return "\n".join([*head, *text]) + "\n"


def _operands(made: ir.Instr) -> dict[str, operand_values.Asked]:
    data = [p for p in made.params if isinstance(p, ir.DataParam)]
    return {p.name.name: operand_values.Asked(p, m) for p, m in zip(data, made.modes, strict=True)}


def _call(variant: Variant, made: ir.Instr, operands: Mapping[str, str]) -> str:
    indices = iter(map(str, variant.arguments))
    arguments = [
        operands[p.name.name] if isinstance(p, ir.DataParam) else next(indices) for p in made.params
    ]
    constants = [f"{n}={spelled(v)}" for n, v in variant.constants]
    return f"{made.name}({', '.join([*arguments, *constants])})"


def _kernel(variant: Variant, made: ir.Instr) -> tuple[list[str], list[operand_values.Node]]:
    if made.unit.name not in UNITS:
        return _cluster_kernel(variant, made)
    block, units = UNITS[made.unit.name]
    trial, asked = operand_values.Trial(block, units), _operands(made)
    operands = {
        name: operand_values.place(trial, one, where)
        for (name, one), where in zip(asked.items(), variant.places, strict=True)
    }
    timelines = {one.param.operand.initial for one in asked.values() if one.param.operand}
    call, signal, wait = (
        _call(variant, made, operands),
        list[operand_values.Node](),
        list[operand_values.Node](),
    )
    if made.trailing is BarrierMechanism.MBARRIER:
        call = f"{call} >> full[u]"
        signal = ["Arrive(cuda_temporal) >> full[u]"]
        trial.shared.append(f"full: barrier[{units}] @ CudaMbarrier")
        wait = ["Await(full[u], cuda_generic_and_async, ~0)"]
    elif made.trailing is not None:
        raise NotTried(f"it signals a {made.trailing.value}")
    wgmma = [operand_values.fence("wgmma_fence_1", "wgmma_fence_2")] if timelines & _WGMMA else []
    waits = sorted({_ASYNC[t] for t in timelines if t in _ASYNC})
    loop = f"for u in cuda_threads(0, {units}, unit={made.unit.name}):"
    both = operand_values.fence("cuda_in_order", "cuda_generic_and_async")
    inside: list[operand_values.Node] = [
        *trial.before,
        *wgmma,
        call,
        *signal,
        *wait,
        *waits,
        *trial.after,
    ]
    body: list[operand_values.Node] = [
        *trial.shared,
        *trial.fill,
        both,
        (loop, inside),
        both,
        *trial.drain,
        both,
    ]
    launch: operand_values.Node = (
        f"with CudaDeviceFunction(blockDim={block}):",
        [("for task in cuda_tasks(0, M):", body)],
    )
    return ["M: size", *trial.parameters], [*trial.maps, launch]


def _cluster_kernel(
    variant: Variant, made: ir.Instr
) -> tuple[list[str], list[operand_values.Node]]:
    """Makes the kernel of an instruction over n CTAs that copies one tile to all of them."""
    constants = dict(variant.constants)
    n, stride = constants.get("n"), constants.get("stride", 1)
    asked = _operands(made)
    mapped = [one for one in asked.values() if one.param.window is not None]
    landed = [one for one in asked.values() if one.param.window is None]
    fits = isinstance(n, int) and isinstance(stride, int) and len(mapped) == len(landed) == 1
    if not fits or made.trailing is not BarrierMechanism.MBARRIER:
        raise NotTried(f"its unit is {made.unit.name}")
    assert isinstance(n, int) and isinstance(stride, int)
    (source,), (target,) = mapped, landed
    _, rows, cols = target.shape
    cluster, window = n * stride, source.param.window
    assert window is not None
    lead = f"{n}, {stride}"
    at = f"(t + 32 * i) / {cols}, (t + 32 * i) % {cols}"
    ctas: list[str] = [
        f"for c in cuda_threads(0, {n}, unit={stride} * cuda_cta_in_cluster):",
        f"for u in cuda_threads(0, {stride}, unit=cuda_cta_in_cluster):",
    ]
    unit = "cuda_warp_in_cluster" if stride == 1 else f"cuda_warp_in_cluster_strided({stride})"
    load = _call(
        variant,
        made,
        {
            source.name: f"x_map[{stride} * task + u, 0:{rows}, 0:{cols}]",
            target.name: "buf[:, u, :, :]",
        },
    )
    copy: operand_values.Node = (
        f"for i in seq(0, {rows * cols // 32}):",
        [f"y[task, c, u, {at}] = buf[c, u, {at}]"],
    )
    threads = "for t in cuda_threads(0, 32, unit=cuda_thread):"
    issue: list[operand_values.Node] = [
        (f"for u in cuda_threads(0, {stride}, unit={n} * {unit}):", [f"{load} >> full[:, u]"]),
        (
            f"for c in cuda_threads(0, {n}, unit={stride} * cuda_warp_in_cluster):",
            [
                (
                    f"for u in cuda_threads(0, {stride}, unit=cuda_warp_in_cluster):",
                    ["Arrive(cuda_temporal) >> full[c, u]"],
                )
            ],
        ),
    ]
    look: operand_values.Node = (
        ctas[0],
        [
            (
                ctas[1],
                ["Await(full[c, u], cuda_generic_and_async, ~0)", (threads, [copy])],
            )
        ],
    )
    both = operand_values.fence("cuda_in_order", "cuda_generic_and_async")
    body: list[operand_values.Node] = [
        f"buf: {target.dtype}[{lead}, {rows}, {cols}] @ {target.param.memory.name}",
        f"full: barrier[{lead}] @ CudaMbarrier",
        ("with CudaWarps(0, 1):", issue),
        look,
        both,
    ]
    parameters = [
        "M: size",
        f"x: {target.dtype}[{stride} * M, {rows}, {cols}] @ CudaGmemLinear",
        f"y: {target.dtype}[M, {lead}, {rows}, {cols}] @ CudaGmemLinear",
    ]
    launch: operand_values.Node = (
        f"with CudaDeviceFunction(clusterDim={cluster}, blockDim=32):",
        [("for task in cuda_tasks(0, M):", body)],
    )
    return parameters, [f"x_map = x[:, :, :] @ {window.name}", launch]


def _on_the_cpu(variant: Variant, made: ir.Instr) -> tuple[list[str], list[operand_values.Node]]:
    """A procedure of one call; its index arguments are sizes, and give the shapes."""
    sizes = [p for p in made.params if isinstance(p, ir.ControlParam)]
    parameters = [f"{p.name.name}: size" for p in sizes]
    operands: dict[str, str] = {}
    for name, asked in _operands(made).items():
        shape = ", ".join(control(extent, lambda n: n.name) for extent in asked.param.shape)
        memory = "DRAM" if asked.param.memory.space is Space.HOST else "CudaGmemLinear"
        parameters.append(f"{name}: {asked.dtype}[{shape}] @ {memory}")
        operands[name] = f"{name}[{', '.join(':' for _ in asked.param.shape)}]"
    arguments = [p.name.name if p in sizes else operands[p.name.name] for p in made.params]
    constants = [f"{n}={spelled(v)}" for n, v in variant.constants]
    call = f"{made.name}({', '.join([*arguments, *constants])})"
    return parameters, [call, operand_values.fence("cuda_stream_sync", "cpu_in_order")]


def copies_alone(variant: Variant) -> bool:
    """Tests whether the trial's kernel does no arithmetic: then all numbers are kept exactly."""
    made = variant.template.instantiate(dict(variant.constants))
    tiles = any(
        isinstance(p, ir.DataParam) and p.memory.name.partition("(")[0] in operand_values.TILES
        for p in made.params
    )
    values = [s.value for s in walk(made.body) if isinstance(s, ir.Assign)]
    adds = any(isinstance(s, ir.Reduce) for s in walk(made.body))
    return not tiles and not adds and all(isinstance(v, ir.Read | ir.Const) for v in values)


def sizes_of(variant: Variant) -> tuple[Mapping[str, int], ...]:
    """Returns the sizes at which a variant is run."""
    made = variant.template.instantiate(dict(variant.constants))
    if made.cuda:
        return ({"M": 1}, {"M": 5})
    names = [p.name.name for p in made.params if isinstance(p, ir.ControlParam)]
    return ({n: 1 for n in names}, {n: 3 + 2 * i for i, n in enumerate(names)})
