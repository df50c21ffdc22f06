"""The ends of launches in a program's JSON: what dependent launches wait for (decision
`dependent-launch`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from exogpu.ir.types import BarrierMechanism
from exogpu.symbolic.certificate.strict_json import malformed

LAUNCH: Final = BarrierMechanism.LAUNCH.value


def check_launches(
    variables: Iterable[Mapping[str, Any]], operations: Iterable[Mapping[str, Any]]
) -> None:
    """One end, at CPU scope, of everything that was done; waited for by threads of tasks, all of
    it.  Raises MalformedError."""
    ends = {one["name"]: one for one in variables if one.get("mechanism") == LAUNCH}
    arrived = dict.fromkeys(ends, 0)
    for op in operations:
        match op["op"]:
            case "Arrive" if op["home"]["variable"] in ends:
                arrived[op["home"]["variable"]] += 1
                if op["threads"] is not None or not op["transitive"]:
                    _wrong(op, "ends a launch elsewhere than after it")
            case "Await" if op["barrier"]["variable"] in ends:
                if op["threads"] is None or op["n"] != 0:
                    _wrong(op, "waits for launches otherwise than by threads, for all of them")
            case "RecordRead" | "RecordMutate" if (op["trailing"] or {}).get("home", {}).get(
                "variable"
            ) in ends:
                _wrong(op, "trails on the end of a launch")
            case "Alloc" | "Release" | "CheckBarrier" if op["variable"] in ends:
                _wrong(op, "allocates or frees the end of a launch")
            case _:
                pass
    for name, one in ends.items():
        if one["shape"] or one["task_local"] or one["guard"] is not None or arrived[name] != 1:
            malformed("variables", f"{name} is not the end of one launch")


def _wrong(op: Mapping[str, Any], what: str) -> None:
    malformed("body", f"line {op['line']} ({op['text']}) {what}")
