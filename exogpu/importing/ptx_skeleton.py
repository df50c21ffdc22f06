"""Compares a kernel's PTX with the synchronisation that its TTGIR and Triton's lowering give.

`.loc` gives each instruction of PTX the user's line.  For each line, the instructions that
synchronise have to be those that the operations of the line are lowered to, in this order; a loop
that was unrolled has them several times, and LLVM may write the blocks after an inner loop before
those ahead of it.  Then the table of lowerings is checked for this kernel,
and not believed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final

from exogpu.importing.mlir_text import Module, Operation, walk
from exogpu.importing.partition_names import unique_names
from exogpu.importing.source_locations import Places, is_compilers, places_of
from exogpu.importing.triton_tables import Lowering

Line = tuple[str, int]
"""The name of a file, and a line of it."""

_KINDS: Final[tuple[tuple[str, str], ...]] = (
    ("mbarrier.arrive.expect_tx", "expect"),
    ("mbarrier.arrive", "arrive"),
    ("mbarrier.try_wait", "wait"),
    ("bar.sync", "meet"),
    ("barrier.sync", "meet"),
    ("bar.warp.sync", "meet 32"),
    ("wgmma.fence", "wgmma fence"),
    ("wgmma.mma_async", "wgmma"),
    ("wgmma.commit_group", "wgmma commit"),
    ("wgmma.wait_group", "wgmma wait"),
    ("cp.async.bulk.tensor", "tma"),
    ("cp.async.bulk.commit_group", "tma commit"),
    ("cp.async.bulk.wait_group", "tma wait"),
    ("cp.async.commit_group", "cp.async commit"),
    ("cp.async.c", "cp.async"),
    ("cp.async.wait_group", "cp.async wait"),
    ("fence.proxy.async", "proxy fence"),
)
"""The beginnings of instructions that synchronise, and what each is called here."""

_COUNTED: Final = ("expect", "wgmma wait", "tma wait", "cp.async wait")
"""Kinds that are told with the number at the instruction's end: of bytes, or of pending groups."""

_INSTRUCTION: Final = re.compile(r"(?:@!?%\w+\s+)?([a-z][\w.:]*)")
_LOC: Final = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s")
_CHAIN: Final = re.compile(r"(?:\.loc|inlined_at)\s+(\d+)\s+(\d+)\s")
_FILE: Final = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A line whose PTX does not synchronise as its operations do."""

    line: Line
    expected: tuple[str, ...]
    found: tuple[str, ...]

    def __str__(self) -> str:
        file, line = self.line
        there, here = ", ".join(self.found) or "nothing", ", ".join(self.expected) or "nothing"
        return (
            f"this Triton lowers {file}:{line} differently: its PTX has {there}, where exogpu "
            f"expects {here}"
        )


def mismatches(module: Module, ptx: str, lowering: Lowering) -> Iterator[Mismatch]:
    """The lines at which PTX synchronises otherwise than the operations of the line do."""
    lines = _expected_lines(module, lowering)
    expected, found = lines.kinds(), _emitted_instructions(ptx)
    for line in sorted(expected.keys() | found.keys()):
        here, there = expected.get(line, ()), found.get(line, ())
        starts = lines.starts.get(line, [0])
        if not any(_agrees((*here[at:], *here[:at]), there) for at in starts):
            yield Mismatch(line, here, there)


def further_barriers(module: Module, ptx: str, lowering: Lowering) -> Iterator[Operation]:
    """The operations before which PTX has a barrier each time, and TTGIR has none.

    Each is the only one of its line that synchronises, and the barrier is of all threads of a
    kernel without roles.
    """
    found = _emitted_instructions(ptx)
    places = places_of(module)
    by_line: dict[Line, list[Operation]] = {}
    operations = tuple(walk(unique_names(module.function.regions[0].operations)))
    if any(one.name == "ttg.warp_specialize" for one in operations):
        return
    for operation in operations:
        if _lowered(operation, module.integer("ttg.num-warps") or 4, lowering):
            span = places.span(operation)
            by_line.setdefault((PurePath(span.file).name, span.line), []).append(operation)
    expected = _expected_lines(module, lowering).kinds()
    for line, of_line in by_line.items():
        once = ("meet", *expected.get(line, ()))
        there = found.get(line, ())
        times = len(there) // len(once)
        if len(of_line) == 1 and not _meets(once[1]) and there == once * times and times:
            yield of_line[0]


def _agrees(expected: Sequence[str], found: Sequence[str]) -> bool:
    """Returns whether the PTX has what is expected, some whole number of times.

    There may be more barriers: where partitions begin and end, and none that takes order away.
    """
    at = times = 0
    for kind in found:
        if expected and _is(kind, expected[at]):
            at += 1
            if at == len(expected):
                at, times = 0, times + 1
        elif not _meets(kind):
            return False
    left = expected[:at]  # barriers may have been taken for the beginning of one time more
    return all(map(_meets, left)) and (times > 0 or not expected)


def _meets(kind: str) -> bool:
    return kind.startswith("meet")


def _is(found: str, expected: str) -> bool:
    """Returns whether an instruction is the expected one, or a barrier of more threads."""
    return found == expected or (found == "meet" and _meets(expected))


def _emitted_instructions(ptx: str) -> Mapping[Line, tuple[str, ...]]:
    files = dict(_FILE.findall(ptx))
    lines = _Lines()
    at: Line = ("", 0)
    inline = False
    for text in ptx.splitlines():
        text = text.strip()
        if text.endswith(" inline asm"):
            inline = text.startswith("// begin")
        elif _LOC.match(text):
            if inline:
                continue  # LLVM counts the lines of the assembly
            at = _user_line(text, files)
        elif text.startswith("$"):
            lines.part()
        elif (found := _INSTRUCTION.match(text)) and (kind := _kind(found[1])):
            lines.append(at, _with_number(kind, text))
    return lines.kinds()


def _user_line(loc: str, files: Mapping[str, str]) -> Line:
    """The innermost line of a `.loc` in a file of the user's own."""
    chain = [(files.get(number, number), int(line)) for number, line in _CHAIN.findall(loc)]
    own = [one for one in chain if not is_compilers(one[0])]
    file, line = (own or chain)[0]
    return PurePath(file).name, line


def _kind(instruction: str) -> str:
    return next((kind for start, kind in _KINDS if instruction.startswith(start)), "")


def _with_number(kind: str, instruction: str) -> str:
    """A kind with the number of bytes, groups or threads that the instruction states."""
    if kind == "meet":
        threads = re.search(r"\S+, (\d+);", instruction)
        return f"meet {threads[1]}" if threads else kind
    number = re.search(r"(\d+);", instruction.split()[-1])
    return f"{kind} {number[1] if number else '?'}" if kind in _COUNTED else kind


_RUNS: Final = ("tma", "cp.async", "wgmma")
"""Operations that may stand several times, one after the other."""


@dataclass(slots=True)
class _Lines:
    """The kinds of each line, where of a run that one operation may have one is left."""

    found: dict[Line, list[str]] = field(default_factory=dict)
    last: Line | None = None
    """The line of the instruction before, within a block."""
    starts: dict[Line, list[int]] = field(default_factory=dict)
    """By line: where in its kinds a block begins."""
    block: int = 0
    within: dict[Line, int] = field(default_factory=dict)
    """By line: the block of its last kind."""

    def append(self, line: Line, kind: str) -> None:
        """Adds a kind.  Barriers are a run where nothing that synchronises is between them."""
        kinds = self.found.setdefault(line, [])
        if self.within.get(line) != self.block:
            self.starts.setdefault(line, []).append(len(kinds))
            self.within[line] = self.block
        run = kind in _RUNS or (_meets(kind) and self.last == line)
        if not (kinds and kinds[-1] == kind and run):
            kinds.append(kind)
        self.last = line

    def part(self) -> None:
        """A block begins or ends."""
        self.last = None
        self.block += 1

    def kinds(self) -> Mapping[Line, tuple[str, ...]]:
        """By line: its kinds."""
        return {line: tuple(kinds) for line, kinds in self.found.items()}


def _expected_lines(module: Module, lowering: Lowering) -> _Lines:
    places = places_of(module)
    warps = module.integer("ttg.num-warps") or 4
    lines = _Lines()
    _go(unique_names(module.function.regions[0].operations), warps, places, lowering, lines)
    return lines


def _go(
    operations: Sequence[Operation],
    warps: int,
    places: Places,
    lowering: Lowering,
    lines: _Lines,
) -> None:
    for operation in operations:
        kinds = _lowered(operation, warps, lowering)
        span = places.span(operation)
        for kind in kinds:
            lines.append((PurePath(span.file).name, span.line), kind)
        for region in operation.regions:
            own = region.warps or warps
            lines.part()
            _go(region.operations, own, places, lowering, lines)
            lines.part()


def _lowered(operation: Operation, warps: int, lowering: Lowering) -> tuple[str, ...]:
    """Returns the synchronising instructions that an operation is lowered to."""
    meet = f"meet {32 * warps}"
    match operation.name:
        case "ttg.barrier":
            return (meet,)
        case "ttng.wait_barrier":
            return ("wait",)
        case "ttng.barrier_expect":
            count = re.search(r", (\d+)", operation.text)
            expect = f"expect {count[1] if count else '?'}"
            return (meet, expect) if lowering.meet_before_arrive else (expect,)
        case "ttng.arrive_barrier":
            return (meet, "arrive") if lowering.meet_before_arrive else ("arrive",)
        case "ttng.async_tma_copy_global_to_local":
            return ("tma",)
        case "ttng.async_tma_copy_local_to_global":
            return ("tma", "tma commit")
        case "ttng.async_tma_store_wait":
            return (f"tma wait {operation.integer('pendings')}",)
        case "ttng.fence_async_shared":
            return ("proxy fence",)
        case "ttg.async_copy_global_to_local":
            return ("cp.async",)
        case "ttg.async_commit_group":
            return ("cp.async commit",)
        case "ttg.async_wait":
            return (f"cp.async wait {operation.integer('num')}",)
        case "ttng.warp_group_dot":
            waits = operation.attributes.get("isAsync") != "true"
            product = ("wgmma fence", "wgmma", "wgmma commit")
            return (*product, "wgmma wait 0") if waits else product
        case "ttng.warp_group_dot_wait":
            local = "warpGroupLocal" in operation.attributes
            meets = warps > 4 and lowering.meet_after_product_wait and not local
            wait = f"wgmma wait {operation.integer('pendings')}"
            return (wait, meet) if meets else (wait,)
        case _ if "allocation.offset" in operation.attributes:
            scratch = operation.name not in ("ttg.local_alloc", "ttg.warp_specialize")
            return (meet,) if scratch and lowering.meet_within_scratch else ()
        case _:
            return ()
