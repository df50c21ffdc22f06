"""No statement of a procedure is lost: calls of what is ill-formed are refused; reading counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from exogpu.api import Procedure, collecting, proc
from exogpu.cli.loader import load
from exogpu.diagnostics.errors import ExoGpuError, InternalError
from exogpu.frontend import statements
from exogpu.frontend.scope import Reject

INNER = """
from __future__ import annotations
from exogpu import *

@proc
def inner(n: size, x: f32[n] @ DRAM):
    x[i] = 1.0
"""
OUTER = """
@proc
def outer(n: size, x: f32[n] @ DRAM):
    {call}(n, x)

@proc
def twice(n: size, x: f32[n] @ DRAM):
    outer(n, x)
"""


def codes(procedure: Procedure) -> list[str]:
    assert procedure.ir is None
    return [d.code for d in procedure.diagnostics]


def loaded(path: Path) -> dict[str, Procedure]:
    return {unit.name: unit.procedure for unit in load(str(path)) if unit.procedure is not None}


def test_a_call_of_an_ill_formed_procedure_is_refused_at_every_level(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(INNER + OUTER.format(call="inner"))
    found = loaded(tmp_path / "one.py")
    assert {name: codes(p) for name, p in found.items()} == {
        "inner": ["P102"],
        "outer": ["P129"],
        "twice": ["P129"],
    }
    assert found["outer"].diagnostics[0].notes[0].message.startswith("P102")
    assert found["twice"].check().word == "error"


def test_also_across_files(tmp_path: Path) -> None:
    (tmp_path / "library_with_inner.py").write_text(INNER)
    head = "import library_with_inner\nfrom exogpu import *\n"
    text = head + OUTER.format(call="library_with_inner.inner")
    (tmp_path / "user.py").write_text(text)
    found = loaded(tmp_path / "user.py")
    assert {name: codes(p) for name, p in found.items()} == {"outer": ["P129"], "twice": ["P129"]}


def test_mutual_recursion_is_refused(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(
        "from exogpu import *\n"
        "@proc\ndef ping(n: size):\n    pong(n)\n"
        "@proc\ndef pong(n: size):\n    ping(n)\n"
    )
    found = loaded(tmp_path / "two.py")
    assert {name: codes(p) for name, p in found.items()} == {"ping": ["P102"], "pong": ["P129"]}


INSTRUCTION = """
from exogpu import *

@instr(x=Operand() if False else 3)
def wrong(x: f32[4] @ CudaRmem):
    x[0] = 1.0

@instr(unit=lambda n: {unit})
def odd(*, n):
    {body}

@proc
def caller(x: f32[4] @ CudaGmemLinear):
    with CudaDeviceFunction(blockDim=32):
        for t in cuda_tasks(0, 1):
            {call}
"""


@pytest.mark.parametrize(
    ("unit", "body", "call"),
    [
        ("cuda_warp", "pass", "wrong(x[0:4])"),
        ("cuda_warp", "y = 1.0", "odd(n=1)"),
        ("cuda_warp", "pass", "odd(n=[1])"),
        ("1 / n", "pass", "odd(n=0)"),
        ("'warp'", "pass", "odd(n=1)"),
    ],
)
def test_a_call_of_an_ill_formed_instruction_is_refused(
    tmp_path: Path, unit: str, body: str, call: str
) -> None:
    (tmp_path / "i.py").write_text(INSTRUCTION.format(unit=unit, body=body, call=call))
    assert codes(loaded(tmp_path / "i.py")["caller"]) == ["T221"]


def test_a_statement_given_up_without_a_word_is_an_internal_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def silent(*_: object) -> None:
        raise Reject(None)

    monkeypatch.setattr(statements, "_expression", silent)
    with pytest.raises(InternalError, match="lost a statement"), collecting():

        @proc
        def caller(n: size):
            other(n)


@pytest.mark.parametrize("lost", ["_declare", "_for_loop", "_if", "_with_block"])
def test_a_statement_that_becomes_nothing_is_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    kept = getattr(statements, lost)
    monkeypatch.setattr(statements, lost, lambda *_: () if lost != "_declare" else kept(*_))
    if lost == "_declare":
        monkeypatch.setattr(statements, "block", lambda *_: ())
    with pytest.raises(InternalError, match="was lost"), collecting():

        @proc
        def caller(n: size, x: f32[n, 32] @ CudaGmemLinear):
            if n > 1:
                y: f32 @ DRAM
                y = 0.0
            for i in seq(0, n):
                pass
            with CudaDeviceFunction(blockDim=32):
                for t in cuda_tasks(0, n):
                    for k in cuda_threads(0, 32, unit=cuda_thread):
                        x[t, k] = 0.0


def test_compile_time_values_leave_statements_out_and_lose_none() -> None:
    fast, steps = True, (1, 2)

    @proc
    def caller(n: size, x: f32[n + 4] @ DRAM):
        "A docstring."
        "Another string."
        if fast:
            x[0] = 0.0
        else:
            x[1] = 0.0
        for k in steps:
            if k == 1:
                x[2] = 0.0
            else:
                for _ in ():
                    x[3] = 0.0
                x[3] = 1.0

    assert caller.ir is not None
    assert len(caller.ir.body) == 3


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x[0] = " + "+".join(["x[0]"] * 500), "P130"),
        ("x[0] = " + "-" * 500 + "x[0]", "P130"),
        ("x[" + "+".join(["n"] * 500) + "] = 0.0", "P130"),
        ("if " + " and ".join(["n < 5"] * 500) + ": pass", "P130"),
        ("if " + "not " * 150 + "n < 5: pass", "P130"),
        ("if " + " < ".join(["n"] * 500) + ": pass", "P130"),
        ("for größe in seq(0, n): pass", "P131"),
        ("größe: f32 @ DRAM", "P131"),
        ("for k in range(10**9): pass", "P117"),
        ("for a in range(999):\n        for b in range(999):\n            pass", "P132"),
        ("for k in iter(int, 1): pass", "P117"),
        ("for k in (1 / z for z in (1, 0)): pass", "P103"),
        ("x[10**400] = 0.0", "T202"),
    ],
)
def test_what_later_passes_cannot_follow_is_refused(tmp_path: Path, text: str, code: str) -> None:
    head = "from exogpu import *\n@proc\ndef one(n: size, x: f32[n] @ DRAM):\n    "
    (tmp_path / "deep.py").write_text(head + text + "\n")
    assert code in codes(loaded(tmp_path / "deep.py")["one"])


def test_too_many_parameters_are_refused(tmp_path: Path) -> None:
    parameters = ", ".join(f"n{number}: size" for number in range(300))
    (tmp_path / "many.py").write_text(f"from exogpu import *\n@proc\ndef one({parameters}): pass\n")
    assert codes(loaded(tmp_path / "many.py")["one"]) == ["P132"]


def chain(length: int, argument: str) -> str:
    head = "from exogpu import *\n@proc\ndef p0(n: index, x: f32[4] @ DRAM):\n    x[n] = 0.0\n"
    return head + "".join(
        f"@proc\ndef p{i}(n: index, x: f32[4] @ DRAM):\n    p{i - 1}({argument}, x)\n"
        for i in range(1, length)
    )


@pytest.mark.slow
def test_deep_chains_of_calls_are_refused(tmp_path: Path) -> None:
    (tmp_path / "chain.py").write_text(chain(102, "n"))
    found = loaded(tmp_path / "chain.py")
    assert found["p99"].ir is not None
    assert codes(found["p100"]) == ["P130"]


def test_what_grows_by_inlining_is_refused(tmp_path: Path) -> None:
    for argument, last in (("(" * 40 + "n" + " + 1)" * 40, 7), ("n + n", 20)):
        (tmp_path / "grows.py").write_text(chain(last + 1, argument))
        found = loaded(tmp_path / "grows.py")
        assert found["p3"].ir is not None
        assert codes(found[f"p{last}"])[0] in ("P129", "P130")
    doubled = "from exogpu import *\n@proc\ndef p0(n: size):\n    pass\n" + "".join(
        f"@proc\ndef p{i}(n: size):\n    p{i - 1}(n)\n    p{i - 1}(n)\n" for i in range(1, 40)
    )
    (tmp_path / "doubled.py").write_text(doubled)
    assert "P132" in [
        c for p in loaded(tmp_path / "doubled.py").values() if not p.ir for c in codes(p)
    ]


@pytest.mark.parametrize("wrong", [3, "proc", len, lambda n: n, Path])
def test_what_is_no_function_of_a_file_is_refused(wrong: object) -> None:
    with pytest.raises(ExoGpuError, match="P101"):
        proc(wrong)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["größe", "../up", "", "a b", 3])
def test_names_are_identifiers(name: object) -> None:
    with pytest.raises(ExoGpuError, match="P131"):

        @proc(name=name)  # type: ignore[arg-type]
        def one(n: size):
            pass
