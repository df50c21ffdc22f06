"""Calls that repeat another: with the same memory, shapes and stream, told of torch's tensors."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable
from types import ModuleType
from typing import Any


def key_of(
    values: Iterable[Any], names: tuple[str, ...], stream: object, most: int | None
) -> Hashable | None:
    """Returns the key of a call: two calls with one key launch the same. The last values have
    names.

    None where that is not known: for arrays that are no tensors of one GPU, or that take part in
    the computation of a gradient, and for streams other than handles.
    """
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    if torch is None or tensor is None or not (stream is None or type(stream) is int):
        return None
    parts: list[Hashable] = []
    device = None
    for value in values:
        if type(value) is int:
            parts.append(value)
            continue
        if type(value) is not tensor or not value.is_cuda or value.requires_grad:
            return None
        if device is None:
            device = value.get_device()
        if value.get_device() != device:
            return None
        parts.append((value.data_ptr(), value.dtype, value.shape, value.stride()))
    if device is None:
        return None
    chosen = _current_stream(torch, device) if stream is None else stream
    return names, stream is None, chosen, device, most, tuple(parts)


def _current_stream(torch: ModuleType, device: int) -> int:
    """The handle of torch's current stream."""
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # an eighth of the time
    return int(raw(device) if raw else torch.cuda.current_stream(device).cuda_stream)
