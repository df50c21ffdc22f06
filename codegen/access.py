"""C++ text of windows: elements, pointers with strides, register fragments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exogpu.codegen import control_text
from exogpu.codegen.names import Names, unsupported
from exogpu.codegen.register_indices import without_thread
from exogpu.codegen.registers import tile_index
from exogpu.codegen.storage import Storage
from exogpu.ir import nodes as ir
from exogpu.ir.types import Space, Sym


@dataclass(frozen=True, slots=True)
class Operand:
    """An instruction's data argument as C++ text; templates use its fields."""

    text: str
    """A pointer to the window's first element, a fragment (an array), or a scalar register."""
    strides: tuple[str, ...] = ()
    """Elements from one index to the next, a window dimension each."""
    dtype: str = "float"
    scale: str = ""
    """The variable of a wgmma accumulator that is 0 before the product that overwrites it."""
    extents: tuple[tuple[ir.CExpr, ...], ...] = ()
    """The factors of each stride, in memory."""

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
    control: control_text.Control

    def element(self, access: ir.Access) -> str:
        """One element, as an lvalue."""
        variable = self.storage[access.name]
        firsts = [_first_index(c) for c in access.coords]
        if variable.swizzle:
            offset = self._constant_offset(variable, firsts)
            how = f"{variable.swizzle}, {control_text.SIZE_OF[variable.dtype]}"
            return f"{self._pointer(access)}[swizzled<{how}>({offset})]"
        if variable.packed:
            word, half = self.packed_register(access)
            return f"half_of({word}, {half})"
        if variable.held is not None:
            return self._register_text(
                access, variable, variable.held.register(self._tile_indices(access))
            )
        return self._element_at(access, firsts)

    def is_packed(self, access: ir.Access) -> bool:
        """Tests whether an element shares a register with another one."""
        return self.storage[access.name].packed

    def packed_register(self, access: ir.Access) -> tuple[str, str]:
        """The register of an element that is one of two, and which."""
        variable = self.storage[access.name]
        assert variable.held is not None, "what has no fragment has no elements"
        register = variable.held.register(self._tile_indices(access))
        half = tile_index(ir.Mod(register, 2), access, self.control)
        word = self._register_text(access, variable, ir.FloorDiv(register, 2))
        return word, control_text.c_control(half, self.control)

    def _tile_indices(self, access: ir.Access) -> list[ir.CExpr]:
        rank = self.storage[access.name].tile_rank
        return [_first_index(c) for c in access.coords[len(access.coords) - rank :]]

    def _register_text(self, access: ir.Access, variable: Storage, register: ir.CExpr) -> str:
        """One of the registers of a thread that hold a tile."""
        outer = [_first_index(c) for c in access.coords]
        for d in variable.kept:
            outer[d] = tile_index(outer[d], access, self.control)
        number = tile_index(register, access, self.control)
        text = self._registers(variable, outer, variable.kept)
        return f"{text}[{control_text.c_control(number, self.control)}]"

    def first_element(self, access: ir.Access) -> str:
        """The first element of a window, as an lvalue."""
        return self._element_at(access, [_first_index(c) for c in access.coords])

    def operand(self, access: ir.Access, distributed: int) -> Operand:
        """A window; its first `distributed` interval coordinates belong to the threads."""
        variable = self.storage[access.name]
        dtype = control_text.C_TYPE[variable.dtype]
        intervals = [d for d, c in enumerate(access.coords) if isinstance(c, ir.Interval)]
        window = [d for d in intervals[distributed:]]
        firsts = [_first_index(c) for c in access.coords]
        if variable.space is Space.REGISTER:
            return self._register(access, variable, firsts, window, dtype)
        text = f"&{self._element_at(access, firsts)}"
        extents = tuple(_inner_extents(variable, d) for d in window)
        return Operand(text, tuple(map(self._stride, extents)), dtype, extents=extents)

    def _register(
        self,
        access: ir.Access,
        variable: Storage,
        firsts: Sequence[ir.CExpr],
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
            return Operand(self._element_at(access, firsts), (), dtype)
        if control_text.simplify(firsts[inside[0]], self.control.constants) == ir.Int(0):
            return Operand(self._registers(variable, firsts, variable.kept[:-1]), ("1",), dtype)
        return Operand(f"&{self._element_at(access, firsts)}", ("1",), dtype)

    def _tiles(
        self,
        access: ir.Access,
        variable: Storage,
        firsts: Sequence[ir.CExpr],
        inside: Sequence[int],
        dtype: str,
    ) -> Operand:
        """The registers of a tile, an array; of all tiles along the last indices, arrays of it."""
        outer = variable.kept[: len(variable.kept) - len(inside)]
        whole = [access.coords[d] == ir.Interval(ir.Int(0), variable.shape[d]) for d in inside]
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

    def _pointer(self, access: ir.Access) -> str:
        """Returns the begin of a variable in memory; for a cluster's memory, of the part of the
        access's CTA."""
        variable, name = self.storage[access.name], self.names(access.name)
        if not variable.of_cluster or access in variable.own:
            return name
        return (
            f"of_cta({name}, "
            f"{control_text.c_control(_first_index(access.coords[0]), self.control)})"
        )

    def _element_at(self, access: ir.Access, firsts: Sequence[ir.CExpr]) -> str:
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

    def _registers(self, variable: Storage, firsts: Sequence[ir.CExpr], dims: Sequence[int]) -> str:
        return f"{self.names(variable.name)}{self._indices(firsts, dims)}"

    def _indices(self, firsts: Sequence[ir.CExpr], dims: Sequence[int]) -> str:
        """Indices of registers; one that depends on the thread puts them into local memory."""
        found = (without_thread(firsts[d], self.control) or firsts[d] for d in dims)
        return "".join(f"[{control_text.c_control(index, self.control)}]" for index in found)

    def _constant_offset(self, variable: Storage, firsts: Sequence[ir.CExpr]) -> str:
        offset: ir.CExpr = ir.Int(0)
        stride = 1
        for d, extent in reversed(list(zip(variable.kept, variable.extents, strict=True))):
            index = control_text.simplify(firsts[d], self.control.constants)
            term = (
                control_text.times(stride, index)
                if isinstance(index, ir.Int | ir.CVar)
                else ir.Mul(stride, index)
            )
            offset = control_text.plus(term if stride > 1 else index, offset)
            stride *= extent
        return control_text.c_control(offset, self.control)

    def _global_offset(self, variable: Storage, firsts: Sequence[ir.CExpr]) -> str:
        """`(i * n1 + j) * n2 + k`, 64 bits wide from the first product on."""
        text = control_text.c_control(firsts[0], self.control)
        if len(firsts) == 1:
            return text
        text = f"(long long)({text})"
        for at, (index, extent) in enumerate(zip(firsts[1:], variable.shape[1:], strict=True)):
            inner = text if at == 0 else f"({text})"
            text = f"{inner} * {control_text.c_factor(extent, self.control)}"
            if control_text.simplify(index, self.control.constants) != ir.Int(0):
                text += f" + ({control_text.c_control(index, self.control)})"
        return text

    def _stride(self, below: Sequence[ir.CExpr]) -> str:
        if not below:
            return "1"
        extents = [control_text.simplify(n, self.control.constants) for n in below]
        known = [n.value for n in extents if isinstance(n, ir.Int)]
        if len(known) == len(extents):
            return str(math.prod(known))
        text = " * ".join(control_text.c_factor(n, self.control) for n in extents)
        return text if len(extents) == 1 else f"(long long){text}"


def _inner_extents(variable: Storage, dim: int) -> tuple[ir.CExpr, ...]:
    """The extents of what lies between one index of a dimension and the next."""
    return tuple(variable.shape[d] for d in variable.kept if d > dim)


def _first_index(coord: ir.Point | ir.Interval) -> ir.CExpr:
    return coord.at if isinstance(coord, ir.Point) else coord.lo
