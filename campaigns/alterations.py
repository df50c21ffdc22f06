"""Random alterations of the JSON of a program or a witness, such as no honest writer makes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final, TypeAlias

Node: TypeAlias = Any
"""JSON: what is altered may have any type."""

Block: TypeAlias = list[dict[str, Node]]

_NUMBER: Final = re.compile(r"\d+")

_PLACE: Final = ("file", "line", "column", "text")
"""Fields that say where an operation stands, which the names of obligations are made of."""


def altered(random: Random, program: Node, witness: Node) -> str:
    """Alters one of the two in place; returns what was done."""
    if random.random() < 0.25:
        return f"witness: {_changed_leaf(random, witness)}"
    change: Callable[[Random, Node], str] = random.choices(
        (_operation, _field, _declaration), (5, 6, 1)
    )[0]
    return f"program: {change(random, program)}"


# --- operations ---------------------------------------------------------------------------------


def _blocks(body: Block) -> Iterator[Block]:
    yield body
    for op in body:
        if "body" in op:
            yield from _blocks(op["body"])


def _operations(program: Node) -> list[tuple[Block, int]]:
    """The blocks and places of all operations."""
    return [(block, at) for block in _blocks(program["body"]) for at in range(len(block))]


def _operation(random: Random, program: Node) -> str:
    """Drops, doubles, moves or wraps an operation."""
    block, at = random.choice(_operations(program))
    op = block[at]
    done = f"{op['op']} of line {op['line']}"
    match random.choice(("drop", "drop", "double", "move", "far", "swap", "guard", "unwrap")):
        case "drop":
            del block[at]
            return f"dropped {done}"
        case "double":
            block.insert(at, dict(op))
            return f"doubled {done}"
        case "move":
            block.insert(random.randrange(len(block)), block.pop(at))
            return f"moved {done} in its block"
        case "far":
            # Not into itself.
            block.pop(at)
            others = list(_blocks(program["body"]))
            into = random.choice(others)
            into.insert(random.randint(0, len(into)), op)
            return f"moved {done} to another block"
        case "swap":
            other = min(at + 1, len(block) - 1)
            block[at], block[other] = block[other], block[at]
            return f"swapped {done} with the next"
        case "guard":
            names = [p["name"] for p in program["params"]] or ["0"]
            rest = {name: op[name] for name in (*_PLACE, "threads")}
            condition = f"({random.choice(names)} > ({random.randrange(3)}))"
            block[at] = {"op": "Guard", "condition": condition, "body": [op], **rest}
            return f"guarded {done} by {condition}"
        case _:
            if "body" in op:
                block[at : at + 1] = op["body"]
                return f"took away {done} around its body"
            return _changed_leaf(random, op)


def _field(random: Random, program: Node) -> str:
    """Changes a field of an operation, or gives it that of another operation."""
    block, at = random.choice(_operations(program))
    op = block[at]
    names = [n for n in op if n not in ("op", "body", *(_PLACE if random.random() < 0.9 else ()))]
    name = random.choice(names)
    same = [b[i][name] for b, i in _operations(program) if name in b[i] and b[i][name] != op[name]]
    said = f"{name} of {op['op']} of line {op['line']}"
    if same and random.random() < 0.6:
        op[name] = random.choice(same)
        return f"{said} := {op[name]}"
    return f"{said}: {_changed_entry(random, op, name)}"


def _declaration(random: Random, program: Node) -> str:
    """Changes a size, precondition, contract or variable."""
    key = random.choice([k for k in program if k not in ("schema", "name", "body")])
    if program[key] in ([], {}):
        key = "variables"
    return f"{key}: {_changed_leaf(random, program[key])}"


# --- any JSON -----------------------------------------------------------------------------------


def _entries(node: Node) -> Iterator[tuple[Node, Node]]:
    """The places of a list or an object, and of what lies in it: container and key."""
    keys: Sequence[Node] = list(node) if isinstance(node, dict) else range(len(node))
    for key in keys:
        yield node, key
        if isinstance(node[key], dict | list):
            yield from _entries(node[key])


def _changed_leaf(random: Random, node: Node) -> str:
    if not isinstance(node, dict | list) or not node:
        return "nothing"
    container, key = random.choice(list(_entries(node)))
    return _changed_entry(random, container, key)


def _changed_entry(random: Random, container: Node, key: Node) -> str:
    """Changes what stands at a place of a list or an object."""
    before = container[key]
    container[key] = _changed(random, before)
    return f"{key}: {before} := {container[key]}"[:160]


def _changed(random: Random, value: Node) -> Node:
    match value:
        case bool():
            return not value
        case int():
            return value + random.choice((-2, -1, 1, 2))
        case str() if numbers := list(_NUMBER.finditer(value)):
            found = random.choice(numbers)
            number = max(0, int(found[0]) + random.choice((-1, 1, 1, 31)))
            return f"{value[: found.start()]}{number}{value[found.end() :]}"
        case "fully_ordered" | "temporally_ordered" | "atomic_only" | "invisible":
            levels = ("fully_ordered", "temporally_ordered", "atomic_only", "invisible")
            return random.choice([one for one in levels if one != value])
        case str():
            return random.choice((f"({value} + (1))", f"({value} - (1))", "(0)"))
        case list() if value:
            at = random.randrange(len(value))
            left = [*value[:at], *value[at + 1 :]]
            return left if random.random() < 0.7 else [*value, value[at]]
        case dict() if value:
            name = random.choice(list(value))
            return {**value, name: _changed(random, value[name])}
        case _:
            return value
