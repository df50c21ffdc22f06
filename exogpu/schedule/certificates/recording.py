"""A rewriting as a record: opened statements, under names that are unique."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from exogpu.ir import nodes as ir
from exogpu.ir.render import identifier, is_free
from exogpu.ir.types import Sym
from exogpu.ir.walk import substitute, substitute_bool
from exogpu.schedule.checking import statement_model
from exogpu.schedule.checking.checker import Checker
from exogpu.schedule.checking.statement_pairs import Pair
from exogpu.schedule.cursors import header
from exogpu.symbolic.encode.witness import witness_integer
from exogpu.symbolic.steps import record as steps_record
from exogpu.symbolic.steps.step_certificate import UnlikeError


class Names(dict[Sym, ir.CExpr]):
    """The one name of each variable, given at its first use; of a whole chain."""

    def __init__(self) -> None:
        super().__init__()
        self._taken: set[str] = set()

    def variable_of(self, name: Sym) -> Sym:
        """The variable of the name."""
        if name not in self:
            text, count = name.name, 1
            while text in self._taken or not is_free(text):
                count += 1
                text = f"{name.name}_{count}"
            self._taken.add(text)
            self[name] = witness_integer(text)
        known = self[name]
        assert isinstance(known, ir.CVar)
        return known.name


class Recorder:
    """Makes records of the steps of a chain, each procedure the same in both of its steps."""

    def __init__(self) -> None:
        self.names = Names()
        self._programs: dict[int, tuple[statement_model.Program, steps_record.Program]] = {}

    def record(self, checker: Checker) -> steps_record.Record:
        """The record of a rewriting."""
        old, new = self.program(checker.old), self.program(checker.new)
        olds = {place.name: n for n, place in enumerate(checker.old.places)}
        news = {place.name: n for n, place in enumerate(checker.new.places)}

        def image(pair: Pair) -> steps_record.Image:
            at = [pair.image.at.get(s, ir.CVar(s)) for s in pair.old.iterators]
            only = () if pair.image.only is None else (self._condition(pair.image.only),)
            return steps_record.Image(
                news[pair.new.name],
                olds[pair.old.name],
                tuple(map(self._form, at)),
                pair.reads,
                only,
            )

        images, again = (tuple(map(image, pairs)) for pairs in (checker.pairs, checker.again))
        copies = []
        for place, copy in checker.copies:
            variable = checker.old.variables[copy.element.name]
            outer = [copy.at.get(s, ir.CVar(s)) for s in variable.iterators]
            cell = self._cell(variable, copy.element, outer, ())
            copies.append(steps_record.Copy(news[place.name], cell))
        return steps_record.Record(old, new, images, tuple(copies), again)

    def results(
        self, old: statement_model.Program, new: statement_model.Program
    ) -> steps_record.Record:
        """The record of two procedures that are compared by what they leave."""
        return steps_record.Record(self.program(old), self.program(new), (), (), compared="results")

    def program(self, of: statement_model.Program) -> steps_record.Program:
        """A procedure as its statements."""
        known = self._programs.get(id(of))
        if known is None:
            known = self._programs[id(of)] = of, self._program(of)
        return known[1]

    def _program(self, of: statement_model.Program) -> steps_record.Program:
        names = self.names
        params = [p for p in of.proc.params if isinstance(p, ir.ControlParam)]
        return steps_record.Program(
            tuple(steps_record.Parameter(names.variable_of(p.name), p.kind) for p in params),
            tuple(map(self._condition, of.proc.preconditions)),
            tuple(map(self._variable, of.variables.values())),
            tuple(self._statement(place, of.variables) for place in of.places),
        )

    def _form(self, expr: ir.CExpr) -> ir.CExpr:
        return substitute(expr, self.names)

    def _condition(self, condition: ir.BExpr) -> ir.BExpr:
        return substitute_bool(condition, self.names)

    def _variable(self, variable: statement_model.Variable) -> steps_record.Variable:
        loops = tuple(map(self.names.variable_of, variable.iterators))
        return steps_record.Variable(
            self.names.variable_of(variable.name).name,
            variable.dtype,
            tuple(map(self._form, variable.shape)),
            loops,
            variable.is_param,
        )

    def _statement(
        self, place: statement_model.Place, variables: Mapping[Sym, statement_model.Variable]
    ) -> steps_record.Statement:
        names = self.names
        iterators = tuple(map(names.variable_of, place.iterators))
        loops = dict(zip(map(identifier, place.iterators), iterators, strict=True))
        count = len(place.events) - (1 if isinstance(place.plain, ir.Assign) else 2)
        if any(e.access.name not in variables for e in place.events):
            raise UnlikeError(f"`{header(place.plain)}` uses what is declared nowhere")
        cells = [
            self._cell(
                variables[e.access.name],
                e.access,
                [ir.CVar(s) for s in variables[e.access.name].iterators],
                e.within,
            )
            for e in place.events
        ]
        return steps_record.Statement(
            "=" if isinstance(place.plain, ir.Assign) else "+=",
            iterators,
            tuple(map(self._condition, place.holds)),
            tuple(ir.Int(int(t)) if t.isdigit() else ir.CVar(loops[t]) for t in place.time),
            tuple(cells[:count]),
            cells[-1],
            _Values(place).value(place.plain.value),
            place.stmt.span.line,
            header(place.plain),
        )

    def _cell(
        self,
        variable: statement_model.Variable,
        access: ir.Access,
        outer: Sequence[ir.CExpr],
        within: Sequence[ir.BExpr],
    ) -> steps_record.Cell:
        inner = [coord.at for coord in access.coords if isinstance(coord, ir.Point)]
        index = tuple(map(self._form, (*outer, *inner)))
        return steps_record.Cell(
            self.names.variable_of(variable.name).name, index, tuple(map(self._condition, within))
        )


class _Values:
    """The value of a statement, its reads numbered from the left."""

    def __init__(self, place: statement_model.Place) -> None:
        self._constants = place.constants
        self._reads = 0

    def value(self, expr: ir.DExpr) -> steps_record.Value:
        match expr:
            case ir.Const():
                return steps_record.Number(repr(expr.value))
            case ir.Read() if (known := self._constants.get(expr.access.name)) is not None:
                return steps_record.Number(repr(known.value), known.dtype)
            case ir.Read():
                self._reads += 1
                return steps_record.Nth(self._reads - 1)
            case ir.BinOp():
                return steps_record.Formula(
                    expr.op, (self.value(expr.left), self.value(expr.right))
                )
            case ir.Negate():
                return steps_record.Formula("negate", (self.value(expr.term),))
            case ir.Apply():
                return steps_record.Formula(expr.function, tuple(map(self.value, expr.arguments)))
