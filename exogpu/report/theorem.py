"""Puts a verdict in sentences: the theorem, its assumptions, and the trusted parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, assert_never

from exogpu.amir.nodes import Record
from exogpu.amir.walk import operations
from exogpu.analysis.domain import admits_zero, controls
from exogpu.diagnostics.verdict import Policy, Verdict
from exogpu.frontend.quote import quote
from exogpu.ir.nodes import DeviceFunction, Proc
from exogpu.ir.walk import walk
from exogpu.pipeline.stages import Stages
from exogpu.symbolic.certificate.strict_json import ASSUMED, TRUSTED

_RULES: Final[Mapping[Policy, str]] = {
    Policy.PTX: "the published model, narrowed where hardware documentation asks for it",
    Policy.PAPER: "the published model",
}
"""The rules of the abstract machine, by policy."""

HOLDS: Final = (
    "the parallel kernel computes what its sequential reading computes{sums}; no memory is reused "
    "while it is in use; no barrier is left unbalanced or overrun; nothing deadlocks; every access "
    "is in bounds; instructions have the operands and threads that they ask for"
)


def badge(verdict: Verdict) -> str:
    """The verdict in a word or two: what is proved at given sizes only is `safe at these sizes`."""
    if verdict.word == "proved" and verdict.sizes is not None:
        return "safe at these sizes" if verdict.sizes else "proved"
    return "ill-formed" if verdict.word == "error" else verdict.word


def theorem(procedure: Stages, verdict: Verdict) -> str:
    """Puts the result in a sentence that claims no more than was established."""
    match verdict.word:
        case "proved":
            claim = HOLDS.format(sums=_sums(procedure, verdict))
            return f"{_sizes(procedure, verdict)} {claim}."
        case "refuted":
            first = verdict.hazards[0]
            at = sizes_text(first.sizes)
            where = f"At {at} " if at else ""
            claim = "the parallel kernel may differ from its sequential reading"
            return _capital(f"{where}{claim}: {first.message}.")
        case "undecided":
            whole = "No answer " + (
                f"at {sizes_text(verdict.sizes)}" if verdict.sizes else "for all sizes"
            )
            return f"{whole}: {verdict.reason}."
        case "error":
            count = len(verdict.diagnostics)
            return f"Not checked: the program is ill-formed ({count} finding{'s' * (count != 1)})."
        case _:
            assert_never(verdict.word)


def sizes_text(sizes: Mapping[str, int]) -> str:
    """`M = 512, N = 512`"""
    return ", ".join(f"{name} = {value}" for name, value in sizes.items())


def _sizes(procedure: Stages, verdict: Verdict) -> str:
    if verdict.sizes is not None:
        return f"At {sizes_text(verdict.sizes)}," if verdict.sizes else "In every run,"
    assert procedure.ir is not None
    text = "In every run"
    if procedure.size_names:
        text = "For all " + " and ".join(_quantifiers(procedure.ir))
    conditions = [quote(condition) for condition in procedure.ir.preconditions]
    if conditions := [*conditions, *verdict.assumptions]:
        text += f" with {' and '.join(conditions)}"
    return f"{text},"


def _quantifiers(proc: Proc) -> Iterator[str]:
    params = controls(proc)
    for least in (1, 0):
        names = [
            p.name.name
            for p in params
            if p.kind == "size" and admits_zero(proc, p.name) == (least == 0)
        ]
        if names:
            yield f"{', '.join(names)} ≥ {least}"
    if indices := [p.name.name for p in params if p.kind == "index"]:
        yield f"integers {', '.join(indices)}"


def _sums(procedure: Stages, verdict: Verdict) -> str:
    """A reservation where parallel sums are added up in any order."""
    ops = operations(procedure.amir(verdict.policy).body)
    atomic = any(isinstance(op, Record) and op.atomic for op in ops)
    return " up to the order of sums" if atomic else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def assumptions(verdict: Verdict) -> tuple[str, ...]:
    """Returns the demands of the verdict's assumptions and the language's conventions on a
    caller."""
    common = ASSUMED if verdict.proof is not None else ASSUMED[-1:]
    return tuple(dict.fromkeys((*verdict.assumptions, *common)))


def trusted(verdict: Verdict) -> tuple[str, ...]:
    """Returns the parts that a reader has to trust besides."""
    rules = f"policy {verdict.policy.value} is {_RULES[verdict.policy]}"
    if verdict.proof is None:
        return (*TRUSTED[:2], rules, "the abstract machine's interpreter")
    return (*TRUSTED[:2], rules, *TRUSTED[2:])


def uncovered(procedure: Stages) -> tuple[str, ...]:
    """Returns the parts that the report does not cover."""
    if not _launches(procedure):
        return ()
    return ("the CUDA text that is emitted, the compilers below it, and the hardware",)


def _launches(procedure: Stages) -> bool:
    return procedure.ir is not None and any(
        isinstance(stmt, DeviceFunction) for stmt in walk(procedure.ir.body)
    )
