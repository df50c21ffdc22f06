"""Ends of launches in a forged program: they stand after a launch, and threads wait for them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from exogpu.symbolic.certificate.program_schema import check_program, operations
from exogpu.symbolic.certificate.strict_json import MalformedError
from tests.machine.launch_procs import NOTHING, READ, WRITE, make

Op = dict[str, Any]
PROGRAM: Any = make((False, True, True), (NOTHING,) * 3, (WRITE, NOTHING, READ)).amir().to_json()

for each in operations(PROGRAM):
    each["file"] = "launch_procs.py"  # as a certificate has it


def of(program: Any, kind: str) -> Op:
    return next(op for op in operations(program) if op["op"] == kind)


def variable(program: Any) -> Op:
    return next(one for one in program["variables"] if one.get("mechanism") == "CudaLaunch")


def twice(program: Any) -> None:
    at = next(i for i, op in enumerate(program["body"]) if op["op"] == "Arrive")
    program["body"].insert(at, program["body"][at])


def by_threads(program: Any) -> None:
    """The end of a launch by threads of a task: a barrier that nothing balances."""
    of(program, "Arrive")["threads"] = of(program, "Await")["threads"]


WRONG: dict[str, tuple[Callable[[Any], None], str]] = {
    "by threads": (by_threads, "ends a launch elsewhere"),
    "not of all before": (lambda p: of(p, "Arrive").update(transitive=False), "elsewhere"),
    "twice": (twice, "is not the end of one launch"),
    "by everyone": (lambda p: of(p, "Await").update(threads=None), "otherwise than by threads"),
    "not for all": (lambda p: of(p, "Await").update(n=1), "otherwise than by threads"),
    "of a task": (lambda p: variable(p).update(task_local=True), "is not the end of one launch"),
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
