"""Values from memory in a program's JSON: what they are loaded from, and what is taken to hold of
it (decision `loaded-values`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from exogpu.symbolic.certificate.strict_json import malformed


def assumed(program: Mapping[str, Any], operations: Iterable[Mapping[str, Any]]) -> list[str]:
    """Lists a program's assumptions, as a certificate states them.

    These are contracts such as `monotone(offsets)`, the assumptions of a kernel's import, and the
    elements that need not have been written, as `uninit(scores)`.
    """
    contracts = [f"{one['kind']}({one['array']})" for one in program.get("contracts", ())]
    imported = program.get("imported", {}).get("assumptions", ())
    uninit = (op["access"]["variable"] for op in operations if op.get("uninit"))
    return [*contracts, *imported, *dict.fromkeys(f"uninit({name})" for name in uninit)]


def check_loads(
    variables: Iterable[Mapping[str, Any]],
    operations: Sequence[Mapping[str, Any]],
    contracts: Iterable[Mapping[str, Any]],
) -> None:
    """A value is loaded from data that nothing writes, which is read there; contracts are of data
    of one dimension, that nothing writes either.  What is loaded has a name of its own, since an
    operation reads loads that are beside it, too.  Raises MalformedError."""
    declared = {one["name"]: one for one in variables}
    loaded = [op for op in operations if op.get("mode") == "loaded"]
    for one in contracts:
        if len(declared[one["array"]]["shape"]) != 1:
            malformed("contracts", f"{one['array']} has not one dimension")
    arrays = {op["source"]["variable"] for op in loaded} | {one["array"] for one in contracts}
    read = set()
    for op in operations:
        name = op["access"]["variable"] if "access" in op else op.get("variable")
        if op["op"] == "RecordRead" and op["inside"]:
            read.add((name, op["line"], op["text"], op["file"]))
        if name in arrays and op["op"] in ("RecordMutate", "Alloc", "Release"):
            malformed(
                "body", f"line {op['line']} ({op['text']}) changes {name}, a table of indices"
            )
    iterators = Counter(op["iterator"] for op in operations if op["op"] == "Loop")
    for op in loaded:
        if iterators[op["iterator"]] > 1:
            malformed("body", f"line {op['line']} ({op['text']}) has another loop's iterator")
        name = op["source"]["variable"]
        if (name, op["line"], op["text"], op["file"]) not in read:
            malformed("body", f"line {op['line']} ({op['text']}) has no RecordRead of {name}")
