"""Arrays of a device by their interface alone: there is no GPU, and none is asked for."""

from __future__ import annotations

from itertools import count

TYPESTR = {
    "float32": "<f4",
    "float64": "<f8",
    "float16": "<f2",
    "bfloat16": "<V2",
    "int32": "<i4",
    "int64": "<i8",
    "float8_e4m3fn": "|V1",
}


FREE = count(1 << 40, 1 << 34)
"""Where arrays that a call makes begin."""


class Device:
    """Memory of a device, as a library lends it."""

    def __init__(self, *shape, dtype="float32", strides=None, at=1 << 32, readonly=False):
        self.shape, self.dtype, self.ndim = shape, dtype, len(shape)
        self.strides, self.at, self.readonly = strides, at, readonly

    @property
    def __cuda_array_interface__(self):
        data, kind = (self.at, self.readonly), TYPESTR[self.dtype]
        told = {"shape": self.shape, "typestr": kind, "data": data, "strides": self.strides}
        return {**told, "version": 3, "stream": 1}

    def __getitem__(self, key):
        assert key is None
        return self.reshape((1, *self.shape))

    def reshape(self, shape):
        return Device(*shape, dtype=self.dtype, at=self.at, readonly=self.readonly)

    def new_empty(self, shape, dtype):
        return Device(*shape, dtype=dtype or self.dtype, at=next(FREE))


def f(*shape, **more):
    return Device(*shape, **more)


def b(*shape, **more):
    return Device(*shape, dtype="bfloat16", **more)


def i(*shape, **more):
    return Device(*shape, dtype="int32", **more)


def e(*shape):
    return Device(*shape, dtype="float8_e4m3fn")
