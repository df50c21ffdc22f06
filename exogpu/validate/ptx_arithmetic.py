"""Instructions of PTX that compute registers from registers, as terms of bit vectors.

Integers are exact.  Of operations of floating point, and of a few of integers that are listed, it
is known only that equal operands give equal results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from exogpu.solvers import bitvectors as bv
from exogpu.validate.ptx_reader import Instruction
from exogpu.validate.refusals import NotValidatedError, refusal_of

Registers: TypeAlias = Mapping[str, bv.Term]
Lookup: TypeAlias = Callable[[str, int], bv.Term]
"""The value of an operand of so many bits."""

_NO_RESULT: Final = frozenset(
    {"st", "bra", "bar", "ret", "exit", "trap", "cp", "barrier", "fence", "membar", "red"}
    | {"prefetch", "nop", "griddepcontrol", "setmaxnreg"}
)
_REGISTER: Final = re.compile(r"%\w+(?:\.\w+)?|(?<![\w.$%])[a-z]\w*")

_UNKNOWN_INTEGERS: Final = frozenset(
    {"brev", "clz", "popc", "bfind", "prmt", "lop3", "shf", "dp4a", "vabsdiff"}
)
"""Functions of their operands, of which no more is known."""

_FLOATING: Final = frozenset(
    {"add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2"}
    | {"ex2", "tanh", "neg", "abs", "min", "max", "cvt", "copysign"}
)


def registers_written(one: Instruction) -> frozenset[str]:
    """The registers that an instruction may write."""
    if not one.operands or one.opcode[0] in _NO_RESULT:
        return frozenset()
    if one.opcode[0] == "mbarrier" and one.opcode[1] not in ("try_wait", "test_wait"):
        return frozenset()
    if one.opcode[0] == "wgmma" and one.opcode[1] != "mma_async":
        return frozenset()
    return frozenset(_REGISTER.findall(one.operands[0]))


def registers_read(one: Instruction) -> frozenset[str]:
    """The registers whose values an instruction may use."""
    result = registers_written(one) and one.opcode[0] != "wgmma"
    names = {name for text in one.operands[bool(result) :] for name in _REGISTER.findall(text)}
    return frozenset(names | ({one.guard.register} if one.guard is not None else set()))


def bits_of(type_: str) -> int:
    """The bits of a type such as `s32`."""
    if type_ == "pred":
        return 1
    found = re.fullmatch(r"(?:[usbf]|bf|tf)(\d+)(?:x2)?", type_)
    if found is None:
        raise refusal_of(f"the type {type_} of PTX is not known")
    return 32 if type_.endswith("x2") else int(found[1])


def number(text: str, bits: int) -> bv.Term | None:
    """The constant that an operand is; None where it is none."""
    if re.fullmatch(r"-?\d+", text):
        return bv.constant(int(text), bits)
    if re.fullmatch(r"-?0x[0-9a-fA-F]+", text):
        return bv.constant(int(text, 16), bits)
    if found := re.fullmatch(r"0([fd])([0-9a-fA-F]{8,16})", text):
        digits = {32: "f", 64: "d"}.get(bits)
        if found[1] == digits and 4 * len(found[2]) == bits:
            return bv.constant(int(found[2], 16), bits)
    return None


def computed(one: Instruction, value: Lookup, truth: Callable[[str], bv.Formula]) -> Registers:
    """The registers that an instruction computes, with their values.

    `value` is asked for numbers, `truth` for predicates.  Raises NotValidatedError for an
    instruction that is none of these.
    """
    try:
        return _computed(one, value, truth)
    except NotValidatedError as error:
        why = error.refusal
        raise refusal_of(why.problem, one.text, one.line) from None


def _computed(one: Instruction, value: Lookup, truth: Callable[[str], bv.Formula]) -> Registers:
    name, operands = one.opcode[0], one.operands
    type_ = one.opcode[-1]
    if name == "nop" or one.opcode == ("prefetch", "tensormap"):  # a hint
        return {}
    if name in ("and", "or", "xor", "not") and type_ == "pred":
        return {operands[0]: _logical(name, [truth(text) for text in operands[1:]])}
    if name == "mov" and type_ == "pred":
        return {operands[0]: truth(operands[1])}
    if name == "setp":
        return _setp(one, value, truth)
    if name == "selp":
        bits = bits_of(type_)
        chosen = bv.choose(truth(operands[3]), value(operands[1], bits), value(operands[2], bits))
        return {operands[0]: chosen}
    if name == "mov" and "{" in operands[0] + operands[1]:
        return _pack(one, value)
    if name in ("mov", "cvta"):
        return {operands[0]: value(operands[1], bits_of(type_))}
    if (
        type_[0] == "f"
        or type_.startswith(("bf", "tf"))
        or (name == "cvt" and "f" in one.opcode[-2])
    ):
        return _floating(one, value)
    made = _integer(one, value)
    return {operands[0]: bv.simplified(made)}


def _logical(name: str, parts: list[bv.Formula]) -> bv.Formula:
    match name:
        case "and":
            return bv.conjunction(parts)
        case "or":
            return bv.disjunction(parts)
        case "xor":
            return bv.exclusive(*parts)
        case _:
            return bv.negation(parts[0])


def _setp(one: Instruction, value: Lookup, truth: Callable[[str], bv.Formula]) -> Registers:
    type_, bits = one.opcode[-1], bits_of(one.opcode[-1])
    left, right = value(one.operands[1], bits), value(one.operands[2], bits)
    if type_[0] == "f" or type_.startswith("bf"):
        found = bv.call_truth(one.name, [left, right])
        words = one.opcode[:2]
    else:
        word = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(one.opcode[1], one.opcode[1])
        if word not in ("eq", "ne", "lt", "le", "gt", "ge"):
            raise refusal_of("a comparison that is not known")
        found = bv.compare(word, left, right, signed=type_[0] == "s")
        words = ("setp", one.opcode[1])
    rest = [part for part in one.opcode[2:-1] if part != "ftz"]
    if rest:
        if len(rest) > 1 or rest[0] not in ("and", "or", "xor") or len(one.operands) != 4:
            raise refusal_of("a comparison that is not known")
        found = _logical(rest[0], [found, truth(one.operands[3])])
    elif len(one.operands) != 3 or words != one.opcode[:2]:
        raise refusal_of("a comparison that is not known")
    results = one.operands[0].split("|")
    made: dict[str, bv.Formula] = {results[0]: found}
    if len(results) == 2:
        if rest:
            raise refusal_of("a comparison that is not known")
        made[results[1]] = bv.negation(found)
    return made


def _pack(one: Instruction, value: Lookup) -> Registers:
    bits = bits_of(one.opcode[-1])
    into, of = one.operands
    if of.startswith("{"):
        parts = [part.strip() for part in of[1:-1].split(",")]
        each = bits // len(parts)
        return {into: bv.joined([value(part, each) for part in parts])}
    names = [part.strip() for part in into[1:-1].split(",")]
    each, whole = bits // len(names), value(of, bits)
    return {name: bv.part(whole, at * each, each) for at, name in enumerate(names) if name != "_"}


def _floating(one: Instruction, value: Lookup) -> Registers:
    if one.opcode[0] not in _FLOATING:
        raise refusal_of("an operation of floating point that is not known")
    to = bits_of(one.opcode[-2] if one.opcode[0] == "cvt" else one.opcode[-1])
    bits = bits_of(one.opcode[-1])
    arguments = [value(text, bits) for text in one.operands[1:]]
    return {one.operands[0]: bv.call(one.name, arguments, to)}


def _integer(one: Instruction, value: Lookup) -> bv.Term:
    name, type_, operands = one.opcode[0], one.opcode[-1], one.operands
    bits, signed = bits_of(type_), type_[0] == "s"
    if "sat" in one.opcode or "cc" in one.opcode or "rz" in one.opcode or "rn" in one.opcode:
        raise refusal_of("a modifier that is not known")

    def operand(at: int, of: int = bits) -> bv.Term:
        return value(operands[at], of)

    match name:
        case "cvt":
            to = bits_of(one.opcode[1])
            given = operand(1)
            return bv.part(given, 0, to) if to <= bits else bv.extend(given, to, signed=signed)
        case "add":
            return operand(1) + operand(2)
        case "sub":
            return operand(1) - operand(2)
        case "neg":
            return -operand(1)
        case "abs":
            zero = bv.constant(0, bits)
            return bv.choose(bv.compare("lt", operand(1), zero), -operand(1), operand(1))
        case "min" | "max":
            word = "le" if name == "min" else "ge"
            first = bv.compare(word, operand(1), operand(2), signed=signed)
            return bv.choose(first, operand(1), operand(2))
        case "mul" | "mad":
            return _product(one, operand, bits, signed)
        case "div" | "rem":
            return _quotient(one, operand(1), operand(2))
        case "shl":
            count = bv.signed_value(operand(2, 32))
            if count is not None and 0 <= count < bits:
                return operand(1) * bv.constant(1 << count, bits)
            return operand(1) << _count(operand(2, 32), bits)
        case "shr":
            return bv.shift_right(operand(1), _count(operand(2, 32), bits), signed=signed)
        case "and":
            mask = bv.signed_value(operand(2))
            if mask is not None and mask < 0 and -mask & (-mask - 1) == 0:
                lowest = bv.constant((-mask).bit_length() - 1, bits)
                return bv.shift_right(operand(1), lowest, signed=True) * bv.constant(-mask, bits)
            return operand(1) & operand(2)
        case "or":
            return operand(1) | operand(2)
        case "xor":
            return operand(1) ^ operand(2)
        case "not":
            return ~operand(1)
        case "bfe" if not signed:
            first, length = bv.signed_value(operand(2, 32)), bv.signed_value(operand(3, 32))
            if first is None or length is None or not 0 < length <= bits - first:
                raise refusal_of("a field of bits that is not constant")
            return bv.extend(bv.part(operand(1), first, length), bits, signed=False)
        case _ if name in _UNKNOWN_INTEGERS:
            return bv.call(one.name, [value(text, bits) for text in operands[1:]], bits)
        case _:
            raise refusal_of("an instruction that is not known")


def _quotient(one: Instruction, left: bv.Term, right: bv.Term) -> bv.Term:
    """A quotient, rounded to zero, or what it leaves."""
    quotient = bv.call(f"div.{one.opcode[-1]}", [left, right], bv.width(left))
    return quotient if one.opcode[0] == "div" else left - quotient * right


def _count(count: bv.Term, bits: int) -> bv.Term:
    """A count of 32 bits, for a shift of a term of other bits: larger ones shift all out."""
    if bits == 32:
        return count
    if bits == 64:
        return bv.extend(count, 64, signed=False)
    given = bv.signed_value(count)
    if given is None or not 0 <= given < bits:
        raise refusal_of("a shift by a count that is not known")
    return bv.constant(given, bits)


def _product(one: Instruction, operand: Callable[..., bv.Term], bits: int, signed: bool) -> bv.Term:
    """A product, and a sum with it."""
    match one.opcode[1]:
        case "lo":
            made = operand(1) * operand(2)
        case "wide":
            left, right = (bv.extend(operand(at), 2 * bits, signed=signed) for at in (1, 2))
            made = left * right
            bits *= 2
        case "hi" if one.opcode[0] == "mul":
            left, right = (bv.extend(operand(at), 2 * bits, signed=signed) for at in (1, 2))
            return bv.part(left * right, bits, bits)
        case _:
            raise refusal_of("a product that is not known")
    return made + operand(3, bits) if one.opcode[0] == "mad" else made
