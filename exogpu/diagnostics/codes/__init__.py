"""Every diagnostic code: what it means, and an example of it with its repair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exogpu.diagnostics.codes.codegen_codes import CODEGEN
from exogpu.diagnostics.codes.collective_codes import COLLECTIVE
from exogpu.diagnostics.codes.hazard_codes import BETWEEN, HAZARDS
from exogpu.diagnostics.codes.importing_codes import IMPORTING
from exogpu.diagnostics.codes.invocation_codes import INVOCATION, SCHEDULING
from exogpu.diagnostics.codes.parsing_codes import PARSING
from exogpu.diagnostics.codes.scope_codes import SCOPES
from exogpu.diagnostics.codes.type_codes import TYPES


@dataclass(frozen=True, slots=True)
class Code:
    """One entry of `exogpu explain`."""

    title: str
    explanation: str
    example: str
    """A fragment that draws the diagnostic, and its repair, as source text."""


CODES: Final[dict[str, Code]] = {
    "B601": Code(
        "an access is out of bounds",
        "At the sizes named, which are the smallest, the statement accesses an element that its "
        "variable or window does not have.  Of an instruction's operand only the elements that "
        "its body touches under its guards count; the global operands of TMA instructions are "
        "clipped by the hardware and exempt.",
        "for i in seq(0, (M + 63) / 64):\n"
        "    for m in seq(0, 64):\n"
        "        A[64 * i + m] = 0  # at M = 1, i = 0, m = 1 the first index is 1\n"
        "# repair: guard it, or add the precondition `assert M % 64 == 0`\n"
        "for i in seq(0, (M + 63) / 64):\n"
        "    for m in seq(0, 64):\n"
        "        if 64 * i + m < M:\n"
        "            A[64 * i + m] = 0",
    ),
    "B602": Code(
        "an extent is negative",
        "At the sizes named, a variable, parameter or window has fewer than no elements along a "
        "dimension.",
        "tmp: f32[M - 4] @ DRAM  # at M = 1 the extent is -3\n"
        "# repair: a precondition\n"
        "assert M >= 4\n"
        "tmp: f32[M - 4] @ DRAM",
    ),
    "B603": Code(
        "a precondition of a call does not hold",
        "The called procedure or instruction asks for something of its control arguments that "
        "the caller's preconditions, loops and guards do not imply.  A `size` parameter asks for "
        "at least 1, or at least 0 where the callee has a precondition such as `assert n >= 0`.",
        "copy(M - 1, x[0:M - 1])  # copy takes a size, and at M = 1 it is 0\n"
        "# repair: guard the call\n"
        "if M > 1:\n"
        "    copy(M - 1, x[0:M - 1])",
    ),
    "B604": Code(
        "the preconditions contradict each other",
        "No sizes satisfy all preconditions, so there is nothing to check or to run.",
        "assert M % 2 == 0\n"
        "assert M == 5\n"
        "# repair: remove or weaken one of them\n"
        "assert M % 2 == 0\n"
        "assert M == 6",
    ),
    "B605": Code(
        "operands of one call overlap",
        "An instruction's meaning is sequential, and the hardware reads all operands before it "
        "writes.  Operands that share a variable have no element in common where one of them is "
        "written, at any sizes, iterations and through any windows and procedures.  An "
        "instruction that works element by element says in its definition which operands may be "
        "one and the same window: `in_place`.",
        "cuda_shfl_xor(a[:], a[:], mask=1)\n"
        "# repair: another variable\n"
        "cuda_shfl_xor(b[:], a[:], mask=1)",
    ),
    "B606": Code(
        "an operand does not lie in memory as its instruction asks",
        "Vector accesses, cp.async, TMA, wgmma descriptors and swizzles have rules of alignment: "
        "where a window begins, how far apart its rows are, that its elements are adjacent.  They "
        "hold for all sizes, as bounds do.  Global variables begin at a multiple of 16 bytes, "
        "which every launch checks, and shared variables at 128, swizzled ones at 1024.",
        "cuda_load(r[:], A[m, 0:4])  # A: f32[M, K]: rows of K * 4 bytes\n"
        "# repair: a precondition\n"
        "assert K % 4 == 0",
    ),
    "T260": Code(
        "an argument has not the extent of its parameter",
        "The window passed to a procedure or instruction must have, for all sizes, the extents "
        "that the parameter declares.",
        "copy(n, x[0:8])  # def copy(n: size, x: f32[n] @ DRAM)\n"
        "# repair: pass a window of the declared extents\n"
        "copy(8, x[0:8])",
    ),
    "X901": Code(
        "an unknown size",
        "A name was given a value that the procedure has no size or index argument for.",
        "exogpu check gemm.py --at m=512,N=512,K=256  # the size is called M\n"
        "# repair\n"
        "exogpu check gemm.py --at M=512,N=512,K=256",
    ),
    "X902": Code(
        "a size is missing",
        "A run at concrete sizes needs a value for every size and index argument.",
        "exogpu check gemm.py --at M=512,N=512  # K is missing\n"
        "# repair\n"
        "exogpu check gemm.py --at M=512,N=512,K=256",
    ),
    "X903": Code(
        "a size is too small",
        "A size is at least 1.  A procedure admits 0 by a precondition that bounds the size from "
        "below and holds at 0.",
        "exogpu check gemm.py --at M=0,N=512,K=256\n"
        "# repair: give a positive size, or write `assert M >= 0` there\n"
        "exogpu check gemm.py --at M=1,N=512,K=256",
    ),
    "X904": Code(
        "the sizes break a precondition",
        "The procedure asserts something of its sizes that does not hold at those given.",
        "exogpu check gemv.py --at M=512,K=100  # assert K % 8 == 0\n"
        "# repair: give sizes that satisfy it\n"
        "exogpu check gemv.py --at M=512,K=104",
    ),
    "X905": Code(
        "a size is no integer of 64 bits",
        "Sizes and index arguments are integers with a sign, of 64 bits.",
        "p.check_at(M=64.0)\n# repair\np.check_at(M=64)",
    ),
    "X906": Code(
        "there is no such policy",
        "A policy is given as exogpu.Policy has it, or by its name.",
        "p.check(policy='lenient')\n# repair\np.check(policy='paper')",
    ),
    "X907": Code(
        "a limit is no number",
        "Seconds and gigabytes that a check may take are numbers of at least 0.",
        "p.check(timeout='60')\n# repair\np.check(timeout=60)",
    ),
    "X908": Code(
        "a kernel is compiled by what policy ptx proves",
        "Policy paper grants more than the hardware keeps: an Await on an mbarrier is taken to "
        "receive all earlier arrivals, where hardware completes each phase by itself.  What is "
        "compiled is proved under ptx, or is unchecked.",
        "p.emit(policy='paper')\n# repair\np.emit()",
    ),
    "X920": Code(
        "a run is given an argument that the procedure does not have",
        "Arguments of a run are given by the names of the procedure's parameters.",
        "p.run(AA=a, A=a)  # p has A\n# repair\np.run(A=a)",
    ),
    "X921": Code(
        "a run is not given an array",
        "Every data parameter needs an array; only sizes that are an extent of an array may be "
        "left out.",
        "p.run(A=a)  # p has A and C\n# repair\np.run(A=a, C=c)",
    ),
    "X922": Code(
        "an argument of a run has the wrong type",
        "Data parameters are numpy arrays of the declared precision (bf16: float32, or bfloat16 "
        "of ml_dtypes); a scalar that is only read may be a number.  Sizes are integers.",
        "p.run(A=np.zeros((4, 4)))  # float64, where A is f32\n# repair\n"
        "p.run(A=np.zeros((4, 4), np.float32))",
    ),
    "X923": Code(
        "an array of a run has the wrong shape",
        "The extents of a parameter, at the sizes given or read off the other arrays, are not "
        "those of the array.",
        "p.run(A=np.zeros((4, 8), np.float32), x=np.zeros(7, np.float32))  # x: f32[K]\n"
        "# repair: arrays that agree on K\n"
        "p.run(A=np.zeros((4, 8), np.float32), x=np.zeros(8, np.float32))",
    ),
    "X924": Code(
        "a bf16 array holds values that are not bf16",
        "A bf16 variable is a float32 array here, of bf16 values only; others could not be there "
        "on a device.",
        "p.run(A=a)\n# repair\nfrom exogpu.interpreter import round_bf16\np.run(A=round_bf16(a))",
    ),
    "X925": Code(
        "a run would write a read-only array",
        "The procedure writes the parameter; a number, or an array that numpy protects, cannot "
        "take the result.",
        "p.run(s=0.0)  # p writes s\n# repair\ns = np.zeros((), np.float32)\np.run(s=s)",
    ),
    "X926": Code(
        "two arrays of a run share memory",
        "Parameters are different variables; a write to one must not change another.",
        "p.run(A=a, C=a)  # p writes C\n# repair\np.run(A=a.copy(), C=a)",
    ),
    "X927": Code(
        "an access is out of range",
        "While it ran, the procedure accessed an element that a variable or window does not have.  "
        "Only the global operands of TMA instructions are clipped.",
        "for i in seq(0, 8):\n"
        "    x[i + 1] = 0  # x: f32[8]\n"
        "# repair: guard it\n"
        "for i in seq(0, 8):\n"
        "    if i + 1 < 8:\n"
        "        x[i + 1] = 0",
    ),
    "X928": Code(
        "a call does not satisfy what its callee asks for",
        "While it ran, the procedure called another, or an instruction, with arguments that break "
        "a precondition, or with a window of other extents than the parameter's.",
        "scale(x[0:n])  # def scale(x: f32[4] @ DRAM), and n is 3\n# repair\nscale(x[0:4])",
    ),
    "X929": Code(
        "an integer is divided by zero",
        "Integer division truncates, and has no result for a divisor of 0.",
        "n[0] = m[0] / m[1]  # m[1] is 0\n# repair\nn[0] = m[0] / max(m[1], 1)",
    ),
    "X930": Code(
        "index arithmetic leaves 64 bits",
        "Control expressions are integers without a limit where they are proved; a run computes "
        "them in 64 bits, and refuses sizes and constants at which it could not.",
        "y[(10**18 * i) / 3 % 7] = 1.0  # i up to 19\n# repair\ny[i / 3 % 7] = 1.0",
    ),
    "X932": Code(
        "a value from memory is not in its range",
        "`b = load_index(offsets[g], lo, hi)` reads one element of the array, and lo <= b < hi; "
        "the kernel traps otherwise, and a run of the sequential meaning ends here.",
        "p.run(rows=np.array([7, 0], np.int32), z=z)  # r = load_index(rows[0], 0, 4)\n"
        "# repair\np.run(rows=np.array([3, 0], np.int32), z=z)",
    ),
    "X933": Code(
        "a contract does not hold",
        "`assert monotone(offsets)` and `assert injective(perm)` are preconditions on the contents "
        "of arrays: what is proved rests on them.",
        "p.run(rows=np.array([2, 2], np.int32), z=z)  # assert injective(rows)\n"
        "# repair\np.run(rows=np.array([2, 3], np.int32), z=z)",
    ),
    "X931": Code(
        "a slot is no expression of the iterators",
        "A run of the sequential meaning computes `slot(b)` from the iterators around it, at the "
        "sizes given.  Where the number of Arrives in an iteration depends on the iteration that "
        "is no expression; a check at these sizes counts.",
        "p.run(x=x, y=y)  # if k < 3: Arrive(cuda_in_order) >> full\n# repair\np.check_at(K=4)",
    ),
    **{
        code: Code(*entry)
        for table in (
            BETWEEN,
            CODEGEN,
            COLLECTIVE,
            HAZARDS,
            IMPORTING,
            INVOCATION,
            SCHEDULING,
        )
        for code, entry in table.items()
    },
    **{
        code: Code(title, explanation, f"{bad}\n# repair\n{repaired}")
        for table in (PARSING, SCOPES, TYPES)
        for code, (title, explanation, bad, repaired) in table.items()
    },
}
"""By code; the letter is the stage: P parsing, T types, S scopes, C collective tiling,
D distributed memory, B bounds, H hazards, G code generation, X invocation."""
