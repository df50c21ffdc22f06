"""Smaller programs that keep a property: operations are dropped as long as it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

from exogpu.amir import nodes as amir
from exogpu.analysis.threadmap import ThreadMap
from exogpu.hw.timelines import SHORT_NAME
from exogpu.ir.nodes import Access, Add, Compare, CVar, FloorDiv, Int, Mod, Mul, Sub
from exogpu.ir.render import access, condition, control
from exogpu.ir.types import Level, QualTL, Sym


def smaller(program: amir.Program, keeps: Callable[[amir.Program], bool]) -> amir.Program:
    """A program of which no single operation can be dropped, nor a loop or guard unwrapped,
    without losing the property."""
    found = True
    while found:
        found = False
        for body in _cuts(program.body):
            cut = replace(program, body=body)
            if keeps(cut):
                program, found = cut, True
                break
    return program


def _cuts(block: amir.Block) -> Iterator[amir.Block]:
    for at, op in enumerate(block):
        before, after = block[:at], block[at + 1 :]
        yield before + after
        if isinstance(op, amir.Guard):
            yield before + op.body + after
        if isinstance(op, amir.Loop | amir.Guard):
            for body in _cuts(op.body):
                yield (*before, replace(op, body=body), *after)


def listing(program: amir.Program) -> str:
    """The operations with their lines, for a report of a disagreement."""
    lines = [f"policy {program.policy.value}"]
    for v in program.variables:
        shape = ", ".join(control(extent, name) for extent in v.shape)
        kind = f" {v.mechanism.value} depth {v.depth}" if v.mechanism else ""
        lines.append(f"{v.name.name}[{shape}]{kind}")

    def add(block: amir.Block, depth: int) -> None:
        for op in block:
            words = " ".join(f"{key}={value}" for key, value in shown(op) if value != "")
            by = threads(op.origin.threads)
            lines.append(f"{op.origin.span.line:4} {'  ' * depth}{type(op).__name__} {words}{by}")
            if isinstance(op, amir.Loop | amir.Guard):
                add(op.body, depth + 1)

    add(program.body, 0)
    return "\n".join(lines)


def name(sym: Sym) -> str:
    return sym.name


def shown(op: amir.Op) -> Iterator[tuple[str, str]]:
    for field in fields(op):
        if field.name not in ("body", "origin"):
            yield field.name, text(getattr(op, field.name))


def text(value: object) -> str:
    match value:
        case Access():
            return access(value, name)
        case CVar() | Int() | Add() | Sub() | Mul() | FloorDiv() | Mod():
            return control(value, name)
        case Compare():
            return condition(value, name)
        case amir.Trailing():
            return f"{text(value.home)} >> {text(value.targets)}"
        case tuple() | frozenset():
            return "{" + ", ".join(sorted(map(text, value))) + "}"
        case QualTL():
            return SHORT_NAME[value]
        case Level():
            return value.name.lower()
        case False | None:
            return ""
        case _:
            return str(value)


def threads(mapping: ThreadMap | None) -> str:
    if mapping is None:
        return " by the CPU"
    axes = (f"{a.pitch} * ({control(a.offset, name)} .. +{a.extent})" for a in mapping.axes)
    return " by " + " + ".join(axes)
