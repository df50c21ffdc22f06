"""Text of the user's in comments of emitted files: it stays in them, and takes nothing in."""

from __future__ import annotations

import re

import pytest

from exogpu.codegen.names import comment
from tests.texts import made

PROGRAM = '''
@proc
def kernel(x: f32[1] @ DRAM, y: f32[32] @ CudaGmemLinear):
    """A path, C:\\\\
    and another, D:\\\\ """
    x[0] = x[0] + \\
        1.0
    with CudaDeviceFunction(blockDim=32):
        for task in cuda_tasks(0, 1):
            for t in cuda_threads(0, 32, unit=cuda_thread):
                y[t] = y[t] + \\
                    2.0
            Fence(cuda_in_order, \\
                  cuda_in_order)
'''


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = 1", "// x = 1"),
        ("x = 1 + \\", "// x = 1 +"),
        ("x = 1 + \\ \t\\\\  ", "// x = 1 +"),
        ("what ??/", "// what"),  # a trigraph
        ("a \\ b", "// a \\ b"),
        ("one\ntwo\rthree\u2028four\n", "// one two three four"),
        ("\\", "// "),
        ("", "// "),
    ],
)
def test_a_comment_is_one_line_that_ends(text: str, line: str) -> None:
    assert comment(text) == line


def test_no_comment_takes_in_the_next_line() -> None:
    emitted, _ = made(PROGRAM).emit(unchecked=True)
    for text in (emitted.source, emitted.host.source, emitted.host.header):
        comments = [line for line in text.splitlines() if "//" in line]
        assert not [line for line in comments if re.search(r"(\\|\?\?/)\s*$", line)]
    assert "// A path, C:\n" in emitted.source
    following = dict(re.findall(r"// \d+: (.*)\n +(.*)\n", emitted.source + emitted.host.source))
    assert following["y[t] = y[t] +"] == "y[t] = y[t] + 2.0f;"
    assert following["Fence(cuda_in_order,"] == "__syncthreads();"
    assert following["x[0] = x[0] +"] == "x[0] = x[0] + 1.0f;"
