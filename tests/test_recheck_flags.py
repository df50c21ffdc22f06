"""Flags in a forged program: threads of tasks arrive on one element, and await all that do."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from exogpu.symbolic.certificate.program_schema import check_program, operations
from exogpu.symbolic.certificate.strict_json import MalformedError
from tests.codegen.flag_kernels import chain

Op = dict[str, Any]
PROGRAM: Any = chain.amir().to_json()

for each in operations(PROGRAM):
    each["file"] = "flag_kernels.py"  # as a certificate has it


def of(program: Any, kind: str) -> Op:
    return next(op for op in operations(program) if op["op"] == kind)


def flag(program: Any) -> Op:
    return next(one for one in program["variables"] if one.get("mechanism") == "CudaFlag")


def resides(program: Any) -> None:
    """A proof by positions knows the tasks of one cluster alone."""
    plain = {"name": "kept", "shape": ["(32)"], "shared": True, "task_local": False, "owner": None}
    program["variables"].append(plain)


def trails(program: Any) -> None:
    element = copy.deepcopy(of(program, "Arrive")["home"])
    of(program, "RecordMutate")["trailing"] = {"home": element, "targets": [element]}


WRONG: dict[str, tuple[Callable[[Any], None], str]] = {
    "by everyone": (lambda p: of(p, "Arrive").update(threads=None), "otherwise than by threads"),
    "on two": (lambda p: of(p, "Arrive")["targets"].append(of(p, "Await")["barrier"]), "one elem"),
    "for all but one": (lambda p: of(p, "Await").update(n=1), "otherwise than by threads, for all"),
    "at CPU scope": (lambda p: of(p, "Await").update(threads=None), "otherwise than by threads"),
    "of a task": (lambda p: flag(p).update(task_local=True), "is no flag of a launch"),
    "of a depth": (lambda p: flag(p).update(depth=2), "is no flag of a launch"),
    "beside what resides": (resides, "serves task after task"),
    "told by an instruction": (trails, "trails on a flag"),
}


def test_the_program_is_one() -> None:
    check_program(copy.deepcopy(PROGRAM))


@pytest.mark.parametrize("what", WRONG)
def test_altered_it_is_none(what: str) -> None:
    alter, said = WRONG[what]
    program = copy.deepcopy(PROGRAM)
    alter(program)
    with pytest.raises(MalformedError, match=said):
        check_program(program)
