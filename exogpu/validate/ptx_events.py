"""Instructions of PTX that other threads may see: accesses, and synchronisation."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from exogpu.solvers import bitvectors as bv
from exogpu.validate.events import Access, Space, Sync
from exogpu.validate.ptx_arithmetic import bits_of, number
from exogpu.validate.ptx_reader import Instruction
from exogpu.validate.refusals import refusal_of

Lookup: TypeAlias = Callable[[str, int], bv.Term]

_ADDRESS: Final = re.compile(r"\[\s*([%$\w.]+)\s*(?:\+\s*(-?\d+))?\s*\]")

_PLAIN: Final = frozenset({"nc", "v2", "v4", "shared::cta"})
"""Modifiers of loads and stores that change neither what is accessed nor how it is ordered."""

_SHARED_SPACES: Final[tuple[list[str], ...]] = ([], ["shared::cta"], ["shared::cluster"])
_COPY: Final = ["shared::cluster", "global", "tile", "mbarrier::complete_tx::bytes"]

EVENTS: Final = frozenset({"ld", "st", "cp", "bar", "barrier", "fence", "membar", "mbarrier"})
"""Opcodes of events."""


def is_event(one: Instruction) -> bool:
    """Tests whether an instruction is one that other threads may see."""
    return one.opcode[0] in EVENTS and one.opcode[:2] != ("ld", "param")


def accesses_of(one: Instruction, value: Lookup) -> tuple[Access, ...]:
    """The accesses that an instruction makes; empty of a synchronisation."""
    match one.opcode:
        case ("ld" | "st", *_):
            return _ordinary(one, value)
        case ("cp", "async", "ca" | "cg", *_):
            return _copied(one, value)
        case _:
            return ()


def loaded_registers(one: Instruction) -> tuple[tuple[str, int], ...]:
    """The registers that a load writes, with their bits."""
    if one.opcode[0] != "ld":
        return ()
    names = [text.strip() for text in one.operands[0].strip("{}").split(",")]
    return tuple((name, bits_of(one.opcode[-1])) for name in names if name != "_")


def synchronisation_of(one: Instruction, value: Lookup) -> Sync:
    """The synchronisation that an instruction is.  Raises NotValidatedError for others."""
    operands = one.operands
    match one.opcode:
        case (
            ("bar" | "barrier", "sync")
            | ("barrier", "cta", "sync")
            | ("barrier", "sync", "aligned")
        ):
            return Sync("barrier", tuple(_constant(text, value, one) for text in operands))
        case ("bar", "warp", "sync"):
            return Sync("warp", (_constant(operands[0], value, one) & 0xFFFFFFFF,))
        case ("cp", "async", "commit_group"):
            return Sync("commit cp.async")
        case ("cp", "async", "wait_group"):
            return Sync("wait cp.async", (_constant(operands[0], value, one),))
        case ("cp", "async", "wait_all"):
            return Sync("drain cp.async")
        case ("fence", "proxy", "async", *space) if space in _SHARED_SPACES:
            return Sync("proxy fence")
        case ("fence", "mbarrier_init", "release", "cluster"):
            return Sync("publish mbarriers")
        case ("mbarrier", "init", "shared::cta", "b64"):
            at = _address(operands[0], "shared", value, one)
            return Sync("init", (_constant(operands[1], value, one),), (at,))
        case ("mbarrier", "arrive", "release", "cta", "shared::cta", "b64") if operands[0] == "_":
            return Sync("arrive", (), (_address(operands[1], "shared", value, one),))
        case ("mbarrier", "arrive", "expect_tx", "release", "cta", "shared::cta", "b64"):
            at = _address(operands[1], "shared", value, one)
            return Sync("arrive with bytes", (_constant(operands[2], value, one),), (at,))
        case ("mbarrier", "try_wait", "parity", "acquire", "cta", "shared::cta", "b64"):
            at = _address(operands[1], "shared", value, one)
            return Sync("wait", (), (at, value(operands[2], 32)))
        case ("cp", "async", "bulk", "tensor", dims, *rest) if rest == _COPY:
            if not re.fullmatch(r"[2-5]d", dims):
                raise refusal_of("a copy of TMA that is not known", one.text, one.line)
            return _tensor_copy(one, int(dims[0]), value)
        case _:
            raise refusal_of("a synchronisation that is not known", one.text, one.line)


def _tensor_copy(one: Instruction, rank: int, value: Lookup) -> Sync:
    """The copy of a box from a tensor in global memory."""
    found = re.fullmatch(r"\[\s*([%$\w]+)\s*,\s*\{([^{}]*)\}\s*\]", one.operands[1])
    at = [] if found is None else [text.strip() for text in found[2].split(",")]
    if found is None or len(at) != rank or len(one.operands) != 3:
        raise refusal_of("a copy of TMA that is not known", one.text, one.line)
    target, mbarrier = (_address(one.operands[k], "shared", value, one) for k in (0, 2))
    places = tuple(value(text, 32) for text in at)
    return Sync("tensor copy", (rank,), (target, value(found[1], 64), mbarrier, *places))


def _constant(text: str, value: Lookup, one: Instruction) -> int:
    found = bv.signed_value(bv.simplified(value(text, 32)))
    if found is None:
        raise refusal_of("a number of a barrier that is not constant", one.text, one.line)
    return found


def _ordinary(one: Instruction, value: Lookup) -> tuple[Access, ...]:
    modifiers = list(one.opcode[1:-1])
    write = one.opcode[0] == "st"
    space: Space
    if "global" in modifiers:
        space = "global"
    elif "shared" in modifiers or "shared::cta" in modifiers:
        space = "shared"
    else:
        raise refusal_of("an access of a state space that is not known", one.text, one.line)
    if set(modifiers) - _PLAIN - {space}:
        raise refusal_of("an access with a modifier that is not known", one.text, one.line)
    bits = bits_of(one.opcode[-1])
    count = 4 if "v4" in modifiers else 2 if "v2" in modifiers else 1
    address = _address(one.operands[0 if write else 1], space, value, one)
    size = bits // 8 * count
    return (Access(write, space, "ordinary", address, size, "nc" in modifiers),)


def _copied(one: Instruction, value: Lookup) -> tuple[Access, ...]:
    if len(one.operands) != 3 or set(one.opcode[3:]) - {"shared", "shared::cta", "global"}:
        raise refusal_of("a cp.async that is not known", one.text, one.line)
    size = _constant(one.operands[2], value, one)
    into = _address(one.operands[0], "shared", value, one)
    source = _address(one.operands[1], "global", value, one)
    return (
        Access(True, "shared", "cp.async", into, size),
        Access(False, "global", "cp.async", source, size),
    )


def _address(text: str, space: Space, value: Lookup, one: Instruction) -> bv.Term:
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise refusal_of("an address that is not known", one.text, one.line)
    bits = 64 if space == "global" else 32
    fixed = number(found[1], bits)
    base = value(found[1], bits) if fixed is None else fixed
    return _plus(base, int(found[2] or 0))


def _plus(address: bv.Term, offset: int) -> bv.Term:
    return bv.simplified(address + bv.constant(offset, bv.width(address))) if offset else address
