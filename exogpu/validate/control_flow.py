"""The control flow of an entry: blocks, loops, and the registers that are still needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from exogpu.validate.ptx_arithmetic import registers_read, registers_written
from exogpu.validate.ptx_reader import Entry, Instruction
from exogpu.validate.refusals import refusal_of


@dataclass(frozen=True, slots=True)
class Loop:
    """A natural loop: its head, the blocks in it, and the registers that they write."""

    head: int
    blocks: frozenset[int]
    written: frozenset[str]


@dataclass(frozen=True, slots=True)
class Flow:
    """The blocks of an entry; a block is known by its number, block 0 is the first."""

    code: tuple[tuple[Instruction, ...], ...]
    next: tuple[tuple[int, ...], ...]
    """Where each block goes on: for a branch with a predicate where it is taken, then where not."""
    order: Mapping[int, int]
    """The place of each block that is reached: after all that come before it, loops aside."""
    loops: Mapping[int, Loop]
    """By their heads."""
    live: tuple[frozenset[str], ...]
    """The registers whose values at the begin of each block are still needed."""


def flow_of(entry: Entry) -> Flow:
    """The control flow.  Raises NotValidatedError for loops with two ways in."""
    code, following = _blocks(entry)
    order = _order(following)
    loops = _loops(code, following, order)
    return Flow(code, following, order, loops, _liveness(code, following))


def _blocks(
    entry: Entry,
) -> tuple[tuple[tuple[Instruction, ...], ...], tuple[tuple[int, ...], ...]]:
    starts = {0, *entry.labels.values()}
    for at, one in enumerate(entry.code):
        if one.opcode[0] in ("bra", "ret", "exit", "trap"):
            starts.add(at + 1)
    cuts = sorted(at for at in starts if at < len(entry.code))
    number = {at: block for block, at in enumerate(cuts)}
    ends = [*cuts[1:], len(entry.code)]
    code, following = [], []
    for at, end in zip(cuts, ends, strict=True):
        last = entry.code[end - 1]
        after = (number[end],) if end in number else ()
        match last.opcode[0]:
            case "bra":
                if last.operands[-1] not in entry.labels:
                    raise refusal_of("a branch to nowhere", last.text, last.line)
                target = number.get(entry.labels[last.operands[-1]])
                if target is None:
                    raise refusal_of("a branch behind the last instruction", last.text, last.line)
                goes = (target,) if last.guard is None else (target, *after)
                code.append(entry.code[at:end])
            case "ret" | "exit" | "trap" if last.guard is None:
                goes = ()
                code.append(entry.code[at:end])
            case "ret" | "exit" | "trap":
                raise refusal_of("a predicated end", last.text, last.line)
            case _:
                goes = after
                code.append(entry.code[at:end])
        following.append(goes)
    return tuple(code), tuple(following)


def _order(following: Sequence[Sequence[int]]) -> dict[int, int]:
    """Reverse postorder."""
    finished: list[int] = []
    seen, stack = {0}, [(0, iter(following[0]))]
    while stack:
        block, rest = stack[-1]
        step = next((one for one in rest if one not in seen), None)
        if step is None:
            finished.append(block)
            stack.pop()
        else:
            seen.add(step)
            stack.append((step, iter(following[step])))
    return {block: place for place, block in enumerate(reversed(finished))}


def _loops(
    code: Sequence[Sequence[Instruction]],
    following: Sequence[Sequence[int]],
    order: Mapping[int, int],
) -> dict[int, Loop]:
    before: dict[int, list[int]] = {block: [] for block in order}
    for block in order:
        for step in following[block]:
            before[step].append(block)
    bodies: dict[int, set[int]] = {}
    for block in order:
        for head in following[block]:
            if order[head] <= order[block]:
                bodies.setdefault(head, {head}).update(_reaching(block, head, before))
    found = {}
    for head, blocks in bodies.items():
        if any(order[one] < order[head] for one in blocks):
            raise refusal_of("a loop with two ways in", code[head][0].text, code[head][0].line)
        written = frozenset(
            name for one in blocks for step in code[one] for name in registers_written(step)
        )
        found[head] = Loop(head, frozenset(blocks), written)
    return found


def _reaching(block: int, head: int, before: Mapping[int, Sequence[int]]) -> Iterator[int]:
    seen, stack = {head}, [block]
    while stack:
        one = stack.pop()
        if one not in seen:
            seen.add(one)
            yield one
            stack += before[one]


def _liveness(
    code: Sequence[Sequence[Instruction]], following: Sequence[Sequence[int]]
) -> tuple[frozenset[str], ...]:
    live: list[frozenset[str]] = [frozenset()] * len(code)
    changed = True
    while changed:
        changed = False
        for block in reversed(range(len(code))):
            needed = frozenset[str]().union(*(live[step] for step in following[block]))
            for one in reversed(code[block]):
                if one.guard is None:
                    needed -= registers_written(one)
                needed |= registers_read(one)
            if needed != live[block]:
                live[block], changed = needed, True
    return tuple(live)
