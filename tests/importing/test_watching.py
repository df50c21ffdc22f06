"""Kernels that a program compiles are collected and checked."""

from __future__ import annotations

import pytest

from exogpu.importing.triton_compiler import triton_version
from tests.importing.made import HERE

pytestmark = pytest.mark.skipif(triton_version() is None, reason="Triton is not installed")

COMPILED = f"""
import sys
sys.path.insert(0, {str(HERE / "kernels")!r})
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
import plain


def compile_matmul():
    pointers = dict.fromkeys("abc", "*fp16")
    sizes = dict.fromkeys(("m", "n", "k"), "i32")
    constants = {{"M": 64, "N": 64, "K": 32}}
    source = ASTSource(plain.matmul, {{**pointers, **sizes}}, constants)
    return triton.compile(source, GPUTarget("cuda", 90, 32), {{"num_stages": 3}})
"""


def test_what_is_compiled_is_checked(monkeypatch):
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    from exogpu import watch_triton

    names: dict[str, object] = {}
    exec(COMPILED, names)
    with watch_triton() as seen:
        names["compile_matmul"]()
    (verdict,) = seen.check()
    assert verdict.proc == "matmul" and verdict.word == "proved", str(verdict)
    assert not any("lowering" in one for one in verdict.assumptions)
