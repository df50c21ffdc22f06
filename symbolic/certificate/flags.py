"""Flags in a program's JSON: what the tasks of one launch wait for (decision `flags`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from exogpu.ir.types import BarrierMechanism
from exogpu.symbolic.certificate.strict_json import malformed

FLAG: Final = BarrierMechanism.FLAG.value


def check_flags(
    variables: Iterable[Mapping[str, Any]], operations: Iterable[Mapping[str, Any]]
) -> None:
    """Allocated outside of tasks, arrived on and awaited by threads of tasks, one element at a
    time, all Arrives together.  Raises MalformedError."""
    flags = {one["name"]: one for one in variables if one.get("mechanism") == FLAG}
    resident = [one["name"] for one in variables if one["shared"] and not one["task_local"]]
    if flags and resident:
        malformed("variables", f"there are flags, and {resident[0]} serves task after task")
    if not flags:
        return
    for op in operations:
        match op["op"]:
            case "Arrive" if op["home"]["variable"] in flags:
                if op["threads"] is None or op["targets"] != [op["home"]]:
                    _wrong(op, "arrives on a flag otherwise than by threads, on one element")
            case "Await" if op["barrier"]["variable"] in flags:
                if op["threads"] is None or op["n"] != 0:
                    _wrong(op, "awaits a flag otherwise than by threads, for all that arrive")
            case "RecordRead" | "RecordMutate" if (op["trailing"] or {}).get("home", {}).get(
                "variable"
            ) in flags:
                _wrong(op, "trails on a flag")
            case _:
                pass
    for name, one in flags.items():
        if one["task_local"] or one["guard"] is not None or one["depth"] is not None:
            malformed("variables", f"{name} is no flag of a launch")


def _wrong(op: Mapping[str, Any], what: str) -> None:
    malformed("body", f"line {op['line']} ({op['text']}) {what}")
