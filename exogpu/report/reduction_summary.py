"""The reduction summary of a kernel's sequential meaning: what each output element is a sum of.

Values are followed backwards from the stores to parameters, through copies and accumulations, by
matching the indices of a read with those of the writes.  Guards and the order of statements are
not looked at: what comes out is a guess, and `exogpu.report.formula` checks it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from exogpu.interpreter import program
from exogpu.ir import affine
from exogpu.ir.types import Sym
from exogpu.report import formula_terms


class NoSummary(Exception):
    """The value cannot be followed."""


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """A store with the iterators around it."""

    store: program.Store
    around: tuple[Sym, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Summed:
    """A sum over all values of some iterators."""

    over: tuple[Sym, ...]
    body: Followed


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """An element of a parameter."""

    buffer: program.Buffer
    at: tuple[affine.Affine, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Applied:
    function: program.Operation
    arguments: tuple[Followed, ...]


Followed = Summed | Found | Applied | formula_terms.Number


def summarise(
    nodes: program.Nodes,
    ranges: dict[Sym, affine.Range],
    extents: Mapping[program.Buffer, tuple[str, ...]],
) -> Iterator[formula_terms.Equation]:
    """An equation for each parameter that is written; `extents` names those of parameters.

    Raises NoSummary.
    """
    writes: dict[program.Buffer, list[Write]] = {}
    for write in _writes(nodes, ()):
        writes.setdefault(write.store.target.buffer, []).append(write)
    for buffer, stores in writes.items():
        if not buffer.local:
            follow = _Follow(writes, dict(ranges))
            found = {_equation(write, follow, extents) for write in stores}
            if len(found) != 1:
                raise NoSummary
            yield found.pop()


def _writes(nodes: program.Nodes, around: tuple[Sym, ...]) -> Iterator[Write]:
    for node in nodes:
        match node:
            case program.Store():
                yield Write(node, around)
            case program.Loop():
                yield from _writes(node.body, (*around, node.iterator))
            case program.Guard():
                yield from _writes((*node.body, *node.orelse), around)
            case _:
                pass


# --- following values -----------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Follow:
    writes: Mapping[program.Buffer, Sequence[Write]]
    ranges: dict[Sym, affine.Range]
    stack: tuple[program.Buffer, ...] = ()

    def value(self, value: program.Value, at: Mapping[Sym, affine.Affine]) -> Followed:
        """The value where iterators have the given forms."""
        match value:
            case program.Literal():
                return formula_terms.Number(value.value)
            case program.Convert():
                return self.value(value.term, at)
            case program.Operation():
                return Applied(value, tuple(self.value(a, at) for a in value.arguments))
            case program.Load():
                place = value.place
                dims = tuple(affine.substitute(d, at, self.ranges) for d in place.dims)
                if not place.buffer.local:
                    return Found(place.buffer, dims)
                return self.local(place.buffer, dims, at)
            case _:
                assert_never(value)

    def local(
        self,
        buffer: program.Buffer,
        dims: tuple[affine.Affine, ...],
        at: Mapping[Sym, affine.Affine],
    ) -> Followed:
        """Returns the value stored to an element of a variable of the kernel."""
        if buffer in self.stack:
            raise NoSummary
        self.stack = (*self.stack, buffer)
        writes = self.writes.get(buffer, ())
        plain = [w for w in writes if not w.store.accumulate]
        sums = [w for w in writes if w.store.accumulate]
        if len(plain) != 1 or len(sums) > 1:
            raise NoSummary
        base = self.stored(plain[0], dims, at)
        if sums:
            if not isinstance(base, formula_terms.Number) or base.value != 0:
                raise NoSummary
            base = self.stored(sums[0], dims, at)
        self.stack = self.stack[:-1]
        return base

    def stored(
        self, write: Write, dims: tuple[affine.Affine, ...], at: Mapping[Sym, affine.Affine]
    ) -> Followed:
        bound = {name: at[name] for name in write.around if name in at}
        for mine, wanted in zip(write.store.target.dims, dims, strict=True):
            self.match(mine, wanted, write.around, bound)
        free = tuple(name for name in write.around if name not in bound)
        fresh = {name: Sym(name.name) for name in free}
        for name, new in fresh.items():
            self.ranges[new] = self.ranges[name]
            bound[name] = affine.variable(new)
        value = self.value(write.store.value, bound)
        if write.store.accumulate:
            return Summed(tuple(fresh.values()), value)
        if set(_mentioned_variables(value)) & set(fresh.values()):
            raise NoSummary
        return value

    def match(
        self,
        mine: affine.Affine,
        wanted: affine.Affine,
        around: tuple[Sym, ...],
        bound: dict[Sym, affine.Affine],
    ) -> None:
        """Binds iterators of a write so that its index is the one that is read."""
        rest = affine.combine((1, wanted), (-1, affine.substitute(mine, bound, self.ranges)))
        free = [
            (atom, c)
            for atom, c in mine.terms
            if set(_variables_inside(atom)) & set(around) - set(bound)
        ]
        match free:
            case [(Sym() as name, (1 | -1) as sign)]:
                # `rest` still contains the free iterator itself, with the opposite sign.
                bound[name] = affine.combine((sign, rest), (1, affine.variable(name)))
                return
            case _:
                pass
        for atom, coefficient in free:
            bound |= self.match_atom(atom, coefficient, wanted, set(around) - set(bound))
        if affine.combine(
            (1, wanted), (-1, affine.substitute(mine, bound, self.ranges))
        ) != affine.Affine(0):
            raise NoSummary

    def match_atom(
        self, atom: affine.Atom, coefficient: int, wanted: affine.Affine, free: set[Sym]
    ) -> dict[Sym, affine.Affine]:
        """The binding that makes an atom the one that stands in its place."""
        for other, c in wanted.terms:
            if c != coefficient:
                continue
            match atom, other:
                case Sym(), Sym() if atom in free:
                    return {atom: affine.variable(other)}
                case ((affine.Floor() | affine.Rest()), (affine.Floor() | affine.Rest())) if type(
                    atom
                ) is type(other):
                    names = [n for n in _variables_inside(atom) if n in free]
                    others = list(_variables_inside(other))
                    if atom.divisor == other.divisor and len(names) == len(others) == 1:
                        return {names[0]: affine.variable(others[0])}
                case _:
                    pass
        raise NoSummary


def _variables_inside(atom: affine.Atom) -> Iterator[Sym]:
    match atom:
        case Sym():
            yield atom
        case affine.Floor() | affine.Rest() | affine.Lookup():
            yield from affine.variables(atom.form)
        case _:
            assert_never(atom)


def _mentioned_variables(value: Followed) -> Iterator[Sym]:
    match value:
        case formula_terms.Number():
            return
        case Found():
            for form in value.at:
                yield from affine.variables(form)
        case Applied():
            for argument in value.arguments:
                yield from _mentioned_variables(argument)
        case Summed():
            yield from _mentioned_variables(value.body)
        case _:
            assert_never(value)


# --- names for indices ----------------------------------------------------------------------


def _equation(
    write: Write, follow: _Follow, extents: Mapping[program.Buffer, tuple[str, ...]]
) -> formula_terms.Equation:
    store = write.store
    names = _Names(follow.ranges, extents)
    target = names.target(store.target.buffer, store.target.dims)
    at = {name: affine.variable(name) for name in write.around}
    body = names.term(follow.value(store.value, at))
    return formula_terms.Equation(target, store.accumulate, body)


class _Names:
    """The target's indices are named after its extents; what is summed over, likewise."""

    def __init__(
        self, ranges: Mapping[Sym, affine.Range], extents: Mapping[program.Buffer, tuple[str, ...]]
    ) -> None:
        self._ranges = ranges
        self._extents = extents
        self._known: dict[tuple[tuple[affine.Atom, int], ...], str] = {}
        self._taken: set[str] = set()

    def fresh(self, extent: str) -> str:
        """`k` for the extent `cluster_K`."""
        letters = [c for c in extent.rpartition("_")[2] if c.isalpha()]
        name = (letters[0].lower() if letters else "i") if extent.isidentifier() else "i"
        number, plain = 1, name
        while name in self._taken:
            number += 1
            name = f"{plain}{number}"
        self._taken.add(name)
        return name

    def target(
        self, buffer: program.Buffer, dims: tuple[affine.Affine, ...]
    ) -> formula_terms.Element:
        at = []
        for form, extent in zip(dims, self._extents[buffer], strict=True):
            if not form.terms:
                at.append(formula_terms.Index((), form.constant))
                continue
            key = _key(form)
            if form.constant or key in self._known:
                raise NoSummary
            self._known[key] = self.fresh(extent)
            at.append(formula_terms.Index((self._known[key],)))
        return formula_terms.Element(buffer.name, tuple(at))

    def term(self, value: Followed) -> formula_terms.Term:
        match value:
            case formula_terms.Number():
                return value
            case Found():
                at = tuple(self.index(form) for form in value.at)
                return formula_terms.Element(value.buffer.name, at)
            case Applied():
                return formula_terms.Call(
                    value.function.function, tuple(map(self.term, value.arguments))
                )
            case Summed():
                over = tuple(self.summed(value))
                return formula_terms.Sum(over, self.term(value.body))
            case _:
                assert_never(value)

    def index(self, form: affine.Affine) -> formula_terms.Index:
        if not form.terms:
            return formula_terms.Index((), form.constant)
        if _key(form) not in self._known:
            raise NoSummary
        return formula_terms.Index((self._known[_key(form)],), form.constant)

    def summed(self, value: Summed) -> Iterator[tuple[str, str]]:
        """Iterators that occur together, as the digits of one number, are one index."""
        over = set(value.over)
        for buffer, dimension, form in _dims(value.body):
            mine = [(atom, c) for atom, c in form.terms if atom in over]
            if mine and _key(form) not in self._known:
                if len(mine) != len(form.terms) or not self.digits(form):
                    raise NoSummary
                extent = self._extents[buffer][dimension]
                name = self._known[_key(form)] = self.fresh(extent)
                over -= {atom for atom, _ in mine if isinstance(atom, Sym)}
                yield name, extent
        if over:
            raise NoSummary

    def digits(self, form: affine.Affine) -> bool:
        """Tests whether the form takes every value from 0 on exactly once."""
        weight = 1
        for atom, coefficient in sorted(form.terms, key=lambda term: term[1]):
            if not isinstance(atom, Sym) or coefficient != weight or self._ranges[atom][0] != 0:
                return False
            weight *= self._ranges[atom][1] + 1
        return form.constant == 0


def _key(form: affine.Affine) -> tuple[tuple[affine.Atom, int], ...]:
    return tuple(sorted(form.terms, key=lambda term: (term[1], str(term[0]), repr(term[0]))))


def _dims(value: Followed) -> Iterator[tuple[program.Buffer, int, affine.Affine]]:
    match value:
        case formula_terms.Number():
            return
        case Found():
            for dimension, form in enumerate(value.at):
                yield value.buffer, dimension, form
        case Applied():
            for argument in value.arguments:
                yield from _dims(argument)
        case Summed():
            yield from _dims(value.body)
        case _:
            assert_never(value)
