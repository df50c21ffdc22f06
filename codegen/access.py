"""C++ text of windows: elements, pointers with strides, register fragments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exogpu.codegen.errors import unsupported
from exogpu.codegen.expressions import (
    C_TYPE,
    SIZE_OF,
    Control,
    c_control,
    c_factor,
    plus,
    simplify,
    times,
)
from exogpu.codegen.names import Names
from exogpu.codegen.registers import without_thread
from exogpu.codegen.storage import Storage
from exogpu.ir.names import Sym
from exogpu.ir.nodes import Access, CExpr, CVar, FloorDiv, Int, Interval, Mod, Mul, Point
from exogpu.ir.types import Space


@dataclass(frozen=True, slots=True)
class Operand:
    """An instruction's data argument as C++ text; templates use its fields."""

    text: str
    """A pointer to the window's first element, a fragment (an array), or a scalar register."""
    strides: tuple[str, ...] = ()
    """Elements from one index to the next, a window dimension each."""
    dtype: str = "float"
    scale: str = ""
    """Of a wgmma accumulator: the variable that is 0 before the product that overwrites it."""
    extents: tuple[tuple[CExpr, ...], ...] = ()
    """What each stride is the product of, in memory."""

    @property
    def ld(self) -> str:
        """The stride of the last dimension but one."""
        return self.strides[-2]

    def __format__(self, spec: str) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Accesses:
    """Windows of variables as text."""

    storage: Mapping[Sym, Storage]
    names: Names
    control: Control

    def element(self, access: Access) -> str:
        """One element, as an lvalue."""
        variable = self.storage[access.name]
        firsts = [_first(c) for c in access.coords]
        if variable.swizzle:
            offset = self._constant_offset(variable, firsts)
            how = f"{variable.swizzle}, {SIZE_OF[variable.dtype]}"
            return f"{self._pointer(access)}[swizzled<{how}>({offset})]"
        if variable.packed:
            word, half = self.packed(access)
            return f"half_of({word}, {half})"
        if variable.held is not None:
            return self._held(access, variable, variable.held.register(self._inside(access)))
        return self._at(access, firsts)

    def is_packed(self, access: Access) -> bool:
        """Tests whether an element shares a register with another one."""
        return self.storage[access.name].packed

    def packed(self, access: Access) -> tuple[str, str]:
        """The register of an element that is one of two, and which."""
        variable = self.storage[access.name]
        assert variable.held is not None, "what has no fragment has no elements"
        register = variable.held.register(self._inside(access))
        half = without_thread(Mod(register, 2), access, self.control)
        word = self._held(access, variable, FloorDiv(register, 2))
        return word, c_control(half, self.control)

    def _inside(self, access: Access) -> list[CExpr]:
        rank = self.storage[access.name].tile_rank
        return [_first(c) for c in access.coords[len(access.coords) - rank :]]

    def _held(self, access: Access, variable: Storage, register: CExpr) -> str:
        """One of the registers of a thread that hold a tile."""
        outer = [_first(c) for c in access.coords]
        for d in variable.kept:
            outer[d] = without_thread(outer[d], access, self.control)
        number = without_thread(register, access, self.control)
        text = self._registers(variable, outer, variable.kept)
        return f"{text}[{c_control(number, self.control)}]"

    def first(self, access: Access) -> str:
        """The first element of a window, as an lvalue."""
        return self._at(access, [_first(c) for c in access.coords])

    def operand(self, access: Access, distributed: int) -> Operand:
        """A window; its first `distributed` interval coordinates belong to the threads."""
        variable = self.storage[access.name]
        dtype = C_TYPE[variable.dtype]
        intervals = [d for d, c in enumerate(access.coords) if isinstance(c, Interval)]
        window = [d for d in intervals[distributed:]]
        firsts = [_first(c) for c in access.coords]
        if variable.space is Space.REGISTER:
            return self._register(access, variable, firsts, window, dtype)
        text = f"&{self._at(access, firsts)}"
        extents = tuple(_below(variable, d) for d in window)
        return Operand(text, tuple(map(self._stride, extents)), dtype, extents=extents)

    def _register(
        self,
        access: Access,
        variable: Storage,
        firsts: Sequence[CExpr],
        window: Sequence[int],
        dtype: str,
    ) -> Operand:
        inside = [d for d in window if d in variable.kept]
        if variable.tile_rank:
            return self._tiles(access, variable, firsts, inside, dtype)
        if inside and (len(inside) > 1 or inside[0] != variable.kept[-1]):
            raise unsupported(
                f"the window of {access.name} is not contiguous in registers",
                access.span,
                "put the window's dimension last",
            )
        if not inside:
            return Operand(self._at(access, firsts), (), dtype)
        if simplify(firsts[inside[0]], self.control.constants) == Int(0):
            return Operand(self._registers(variable, firsts, variable.kept[:-1]), ("1",), dtype)
        return Operand(f"&{self._at(access, firsts)}", ("1",), dtype)

    def _tiles(
        self,
        access: Access,
        variable: Storage,
        firsts: Sequence[CExpr],
        inside: Sequence[int],
        dtype: str,
    ) -> Operand:
        """The registers of a tile, an array; of all tiles along the last indices, arrays of it."""
        outer = variable.kept[: len(variable.kept) - len(inside)]
        whole = [access.coords[d] == Interval(Int(0), variable.shape[d]) for d in inside]
        if tuple(inside) != variable.kept[len(outer) :] or not all(whole):
            raise unsupported(
                f"the window of {access.name} is not contiguous in registers",
                access.span,
                "pass one tile, or all tiles along the last indices",
            )
        scale = ""
        if variable.scale is not None:
            scale = f"{self.names(variable.scale)}{self._indices(firsts, outer)}"
        return Operand(self._registers(variable, firsts, outer), (), dtype, scale)

    def _pointer(self, access: Access) -> str:
        """Returns the begin of a variable in memory; for a cluster's memory, of the part of the
        access's CTA."""
        variable, name = self.storage[access.name], self.names(access.name)
        if not variable.of_cluster or access in variable.own:
            return name
        return f"of_cta({name}, {c_control(_first(access.coords[0]), self.control)})"

    def _at(self, access: Access, firsts: Sequence[CExpr]) -> str:
        """The element, or the fragment of a register tile, at the given indices."""
        variable = self.storage[access.name]
        if variable.space is Space.REGISTER:
            return self._registers(variable, firsts, variable.kept)
        name = self._pointer(access)
        if not variable.kept:
            return f"{name}[0]"
        if variable.space is Space.SHARED:
            return f"{name}[{self._constant_offset(variable, firsts)}]"
        return f"{name}[{self._global_offset(variable, firsts)}]"

    def _registers(self, variable: Storage, firsts: Sequence[CExpr], dims: Sequence[int]) -> str:
        return f"{self.names(variable.name)}{self._indices(firsts, dims)}"

    def _indices(self, firsts: Sequence[CExpr], dims: Sequence[int]) -> str:
        return "".join(f"[{c_control(firsts[d], self.control)}]" for d in dims)

    def _constant_offset(self, variable: Storage, firsts: Sequence[CExpr]) -> str:
        offset: CExpr = Int(0)
        stride = 1
        for d, extent in reversed(list(zip(variable.kept, variable.extents, strict=True))):
            index = simplify(firsts[d], self.control.constants)
            term = times(stride, index) if isinstance(index, Int | CVar) else Mul(stride, index)
            offset = plus(term if stride > 1 else index, offset)
            stride *= extent
        return c_control(offset, self.control)

    def _global_offset(self, variable: Storage, firsts: Sequence[CExpr]) -> str:
        """`(i * n1 + j) * n2 + k`, 64 bits wide from the first product on."""
        text = c_control(firsts[0], self.control)
        if len(firsts) == 1:
            return text
        text = f"(long long)({text})"
        for at, (index, extent) in enumerate(zip(firsts[1:], variable.shape[1:], strict=True)):
            inner = text if at == 0 else f"({text})"
            text = f"{inner} * {c_factor(extent, self.control)}"
            if simplify(index, self.control.constants) != Int(0):
                text += f" + ({c_control(index, self.control)})"
        return text

    def _stride(self, below: Sequence[CExpr]) -> str:
        if not below:
            return "1"
        extents = [simplify(n, self.control.constants) for n in below]
        known = [n.value for n in extents if isinstance(n, Int)]
        if len(known) == len(extents):
            return str(math.prod(known))
        text = " * ".join(c_factor(n, self.control) for n in extents)
        return text if len(extents) == 1 else f"(long long){text}"


def _below(variable: Storage, dim: int) -> tuple[CExpr, ...]:
    """The extents of what lies between one index of a dimension and the next."""
    return tuple(variable.shape[d] for d in variable.kept if d > dim)


def _first(coord: Point | Interval) -> CExpr:
    return coord.at if isinstance(coord, Point) else coord.lo
