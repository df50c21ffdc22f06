"""The execution of instructions of PTX that compute registers, for one thread of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from exogpu.ir.types import BarrierMechanism, Sym
from exogpu.solvers import bitvectors as bv
from exogpu.validate.control_flow import Flow
from exogpu.validate.cursor import Decide, Walker
from exogpu.validate.memory import Place
from exogpu.validate.ptx_arithmetic import computed, number
from exogpu.validate.ptx_reader import Instruction
from exogpu.validate.refusals import refusal_of
from exogpu.validate.thread_state import State


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel with its program: what the product needs to know of both."""

    flow: Flow
    walker: Walker
    places: Mapping[Sym, Place]
    mechanisms: Mapping[Sym, BarrierMechanism]
    unwritten: frozenset[Sym]
    """Global variables that the kernel does not write: reads of them commute with everything."""
    block: int
    parameters: Mapping[str, bv.Term]
    """The values of the parameters, by name."""
    specials: Mapping[str, bv.Term]
    """The values of special registers, and of the address of shared memory."""
    named: tuple[bv.Term, ...]
    """Terms of 32 bits under which products and quotients of PTX are recognised."""
    maps: Mapping[tuple[Sym, tuple[int, ...]], bv.Term]
    """The addresses of tensor maps, by array and box."""
    shown: Mapping[str, str]
    """Unknowns that are shown in a model, with their names for a reader."""


@dataclass(slots=True)
class Executor:
    """Computes registers, and answers what holds where a thread stands."""

    kernel: Kernel
    prover: bv.Prover = field(default_factory=bv.Prover)

    def follows(self, state: State, claim: bv.Formula) -> bool:
        """Tests whether a claim holds where the thread stands."""
        return self.prover.follows(state.known, claim)

    def decide(self, state: State) -> Decide:
        """Decides formulas where the thread stands."""
        return lambda claim: self.prover.decide(state.known, claim)

    def with_registers(self, state: State, written: Mapping[str, bv.Term]) -> State:
        """The state with other values of some registers."""
        return replace(state, registers={**state.registers, **written}) if written else state

    def computed(self, one: Instruction, state: State) -> Mapping[str, bv.Term]:
        """The registers that an instruction computes."""
        recognise = one.opcode[0] in ("div", "rem", "mul", "mad")

        def value(text: str, bits: int) -> bv.Term:
            found = self.value(state, text, bits)
            return self._recognised(state, found) if recognise and bits == 32 else found

        found = computed(one, value, lambda text: self.truth(state, text))
        return {name: self._tidied(state, one, term) for name, term in found.items()}

    def _tidied(self, state: State, one: Instruction, term: bv.Term) -> bv.Term:
        """An equal term, in which what is known here makes quotients and sums plain."""
        if bv.is_formula(term):
            return term
        if one.opcode[:2] == ("shr", "s32") and one.operands[2] == "31":
            zero = bv.constant(0, 32)
            if self.follows(state, bv.equal(term, zero)):
                return zero
        for nest in self.kernel.walker.nests.values():
            if (named := nest.digits.get(term.get_id())) is not None:
                return named[1]
        if bv.width(term) == 64:
            return bv.distributed(term, lambda claim: self.follows(state, claim))
        return term

    def _recognised(self, state: State, term: bv.Term) -> bv.Term:
        """One of the counts and sizes, if a term of sizes alone is equal to it."""
        sizes = self.kernel.shown.keys() - self.kernel.specials.keys() - {"tid", "ctaid", "nctaid"}
        if bv.signed_value(term) is not None or not self.prover.names_in(term) <= sizes:
            return term
        same = (one for one in self.kernel.named if self.follows(state, bv.equal(term, one)))
        return next(same, term)

    def compute_if(self, one: Instruction, condition: bv.Formula, state: State) -> State:
        """The state behind an instruction that is performed where a condition holds."""
        found = {}
        for name, value in self.computed(one, state).items():
            old = state.registers.get(name)
            if old is None:
                is_truth = bv.is_formula(value)
                old = bv.fresh_truth("any") if is_truth else bv.fresh("any", bv.width(value))
            found[name] = bv.choose(condition, value, old)
        return self.with_registers(state, found)

    def shuffled(self, one: Instruction, state: State) -> State:
        """The first lane's value, in all lanes of a warp that is here as a whole."""
        numbers = [number(text, 32) or state.registers.get(text) for text in one.operands[2:]]
        given = [None if term is None else bv.signed_value(term) for term in numbers]
        if one.opcode != ("shfl", "sync", "idx", "b32") or given != [0, 31, -1]:
            raise refusal_of("an exchange between lanes that is not known", one.text, one.line)
        tid = self.kernel.specials["%tid.x"]
        first = tid & bv.constant(-32, 32)
        term = self.value(state, one.operands[1], 32)
        here = [fact for fact in state.known if "tid" in self.prover.names_in(fact)]
        alike = [bv.substitute(fact, [(tid, first)]) for fact in here]
        uniform = self.prover.names_in(term) <= {"tid", *self.kernel.shown}
        if not uniform or not all(self.follows(state, fact) for fact in alike):
            raise refusal_of("an exchange between lanes that differ", one.text, one.line)
        target = one.operands[0].partition("|")[0]
        value = bv.simplified(bv.substitute(term, [(tid, first)]))
        own = bv.simplified(term)
        same = self.follows(state, bv.equal(value, own))
        return self.with_registers(state, {target: own if same else value})

    def value(self, state: State, text: str, bits: int) -> bv.Term:
        """The value of an operand of so many bits."""
        for table in (state.registers, self.kernel.specials, self.kernel.parameters):
            if (found := table.get(text)) is not None:
                if bv.width(found) != bits:
                    raise refusal_of(f"{text} is used with another number of bits")
                return found
        constant = number(text, bits)
        if constant is None:
            raise refusal_of(f"{text} has no value here")
        return constant

    def truth(self, state: State, name: str) -> bv.Formula:
        """The value of a predicate."""
        negated, name = name.startswith("!"), name.removeprefix("!")
        found = state.registers.get(name)
        if found is None or not bv.is_formula(found):
            raise refusal_of(f"{name} has no truth value here")
        return bv.negation(found) if negated else found
