"""Calls a compiled kernel from PyTorch: plain, on a stream, in a CUDA graph, as a custom operator.

    exogpu compile examples/pytorch/reverse.py -o build --cubin
    python examples/pytorch/call.py build

It needs a GPU and torch.  The first command needs neither.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from exogpu.codegen.runtime import Kernel

reverse = Kernel.from_folder(Path(sys.argv[1]), "reverse")


def plain(x: torch.Tensor) -> torch.Tensor:
    """Call on torch's current stream; M follows from the shape of x."""
    y = torch.empty_like(x)
    reverse(x, y)
    return y


def on_a_stream(x: torch.Tensor) -> torch.Tensor:
    """Call on a stream of the caller's, and let the current stream wait for it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = plain(x)
    torch.cuda.current_stream().wait_stream(stream)
    return y


def in_a_graph(x: torch.Tensor) -> torch.Tensor:
    """Capture a call in a CUDA graph and replay it."""
    y = torch.empty_like(x)
    reverse(x, y)  # the first call loads the kernel, which a capture must not do
    y.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        reverse(x, y)
    graph.replay()
    return y


@torch.library.custom_op("example::reverse", mutates_args=())
def reverse_op(x: torch.Tensor) -> torch.Tensor:
    """The kernel as an operator that `torch.compile` takes."""
    return plain(x.contiguous())


@reverse_op.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def compiled(x: torch.Tensor) -> torch.Tensor:
    """Call the operator from compiled code."""
    return torch.compile(lambda z: reverse_op(2 * z) / 2)(x)


if __name__ == "__main__":
    x = torch.randn(1000, 64, device="cuda")
    for call in (plain, on_a_stream, in_a_graph, compiled):
        right = torch.equal(call(x), x.flip(1))
        print(f"{call.__name__}: {'right' if right else 'wrong'}")
