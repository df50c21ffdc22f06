"""The arguments of a kernel as the command line gives them.

fp16[2048, 2048]:desc(128, 64), fp32[4096], 2048, BLOCK_M=128, MMA=WGMMA
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from exogpu.importing.refusals import RefusedError

_TENSOR: Final = re.compile(
    r"(?P<type>[a-z]+\d\w*)\[(?P<shape>[\d\s,]*)\](?::desc\((?P<block>[\d\s,]+)\))?"
)


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor of global memory; with a block, a descriptor of it for TMA."""

    dtype: str
    shape: tuple[int, ...]
    block: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """Arguments by place and by name: tensors, or expressions of Python."""

    places: tuple[TensorArgument | str, ...]
    names: tuple[tuple[str, TensorArgument | str], ...]

    def values(
        self, known: Mapping[str, Any], tensor: Callable[[TensorArgument], object]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The values, expressions with the names of the kernel's file.

        Raises RefusedError (K109) for an expression that has none.
        """

        def value(one: TensorArgument | str) -> Any:  # noqa: ANN401
            if isinstance(one, TensorArgument):
                return tensor(one)
            try:
                return eval(one, dict(known))  # the user's own expression, on the user's own file
            except Exception as error:
                raise _wrong(f"{one}: {type(error).__name__}: {error}") from error

        return [value(one) for one in self.places], {name: value(one) for name, one in self.names}


def parse_call(text: str) -> Call:
    """Arguments from their text.  Raises RefusedError (K109) for text of another form."""
    places: list[TensorArgument | str] = []
    names: dict[str, TensorArgument | str] = {}
    for part in _parts(text):
        named = re.fullmatch(r"([^\W\d]\w*)\s*=(?!=)\s*(.+)", part, re.DOTALL)
        if named is None and names:
            raise _wrong(f"{part} stands after arguments with names")
        if named is None:
            places.append(_argument(part))
        elif named[1] in names:
            raise _wrong(f"{named[1]} is given twice")
        else:
            names[named[1]] = _argument(named[2])
    return Call(tuple(places), tuple(names.items()))


def _argument(text: str) -> TensorArgument | str:
    found = _TENSOR.fullmatch(text.strip())
    if found is None:
        return text.strip()
    shape = _numbers(found["shape"])
    block = _numbers(found["block"]) if found["block"] else None
    if block is not None and len(block) != len(shape):
        raise _wrong(f"{text}: the block has {len(block)} extents, the tensor {len(shape)}")
    return TensorArgument(found["type"], shape, block)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())


def _parts(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    found, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            found.append(text[start:at])
            start = at + 1
    if depth:
        raise _wrong(f"{text}: a bracket is not closed")
    found.append(text[start:])
    return [part.strip() for part in found if part.strip()]


def _wrong(message: str) -> RefusedError:
    remedy = "write --args 'fp16[2048, 2048]:desc(128, 64), 2048, BLOCK_M=128'"
    return RefusedError("K109", f"--args: {message}", remedy)


# Placeholders for tensors, and for modules that a file imports and its kernels do not use.

ABSENT: Final = ("torch", "numpy", "matplotlib", "pandas", "pytest", "tabulate", "tqdm")
"""Modules that files of kernels import for their tests and benchmarks."""

NAMES: Final = {
    **{"fp16": "float16", "f16": "float16", "bf16": "bfloat16", "fp32": "float32"},
    **{"f32": "float32", "fp64": "float64", "f64": "float64", "i8": "int8", "i16": "int16"},
    **{"i32": "int32", "i64": "int64", "u8": "uint8", "fp8e5": "float8_e5m2"},
    **{"fp8e4nv": "float8_e4m3fn", "i1": "bool"},
}
"""Element types, as Triton writes them and as torch does."""

BYTES: Final = {"8": 1, "6": 2, "2": 4, "4": 8}


class Standing(types.ModuleType):
    """Has every attribute, can be called, and is nothing: of use only to what is not compiled."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name.startswith("__"):
            raise AttributeError(name)
        if self.__name__ == "torch" and name in NAMES.values():
            return ElementType(name)
        if name in ("Tensor", "Function", "Module", "dtype"):
            return type(name, (), {"apply": None})
        made = Standing(f"{self.__name__}.{name}")
        made.__path__ = []
        setattr(self, name, made)
        return made

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401
        """A decorator gives back what it decorates."""
        if len(arguments) == 1 and callable(arguments[0]) and not keywords:
            return arguments[0]
        return Standing(self.__name__)

    def _identity(self, *others: object) -> Standing:
        return self

    __add__ = __sub__ = __mul__ = __rmul__ = __truediv__ = __floordiv__ = __or__ = __ror__ = (
        _identity
    )
    __getitem__ = _identity

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __bool__(self) -> bool:
        return False

    def __ge__(self, other: object) -> bool:
        """Answers that a capability is recent: the architecture that is compiled for is new."""
        return True

    def __gt__(self, other: object) -> bool:
        return False

    @staticmethod
    @contextmanager
    def absent() -> Iterator[None]:
        """Within it, modules that are not installed can be imported, as stand-ins."""
        finder = _Finder()
        sys.meta_path.append(finder)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)


class _Finder:
    """Finds what no other finder has."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in ABSENT:
            return None
        return importlib.machinery.ModuleSpec(name, self)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        made = Standing(spec.name)
        made.__path__ = []
        return made

    def exec_module(self, module: types.ModuleType) -> None:
        """A stand-in has no code."""


class ElementType:
    """An element type, as Triton reads torch's."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.itemsize = BYTES.get(name[-1], 1) if "8" not in name else 1

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return repr(other) == repr(self)


class StandingTensor:
    """A tensor without data: dense, aligned to 16 bytes."""

    device = "cuda"

    def __init__(self, dtype: str, shape: Sequence[int]) -> None:
        self.dtype = ElementType(NAMES.get(dtype, dtype))
        self.shape = list(shape)
        self.strides = [prod(shape[at + 1 :]) for at in range(len(shape))]
        self.ndim = len(shape)

    def stride(self, dim: int | None = None) -> Any:  # noqa: ANN401
        """Returns the stride of one dimension, or of all."""
        return tuple(self.strides) if dim is None else self.strides[dim]

    def data_ptr(self) -> int:
        """An address that is aligned."""
        return 16

    def numel(self) -> int:
        """Returns the number of elements."""
        return prod(self.shape)

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def dim(self) -> int:
        """Returns the number of dimensions."""
        return self.ndim


def tensor_of(argument: TensorArgument, is_gluon: bool) -> object:
    """The tensor, or its descriptor, that an argument describes."""
    tensor = StandingTensor(argument.dtype, argument.shape)
    if argument.block is None:
        return tensor
    block = list(argument.block)
    if not is_gluon:
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor.from_tensor(tensor, block)
    from triton.experimental.gluon import language
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as Described

    element = getattr(language, tensor.dtype.name)
    layout = language.NVMMASharedLayout.get_default_for(block, element)
    return Described.from_tensor(tensor, block, layout)
