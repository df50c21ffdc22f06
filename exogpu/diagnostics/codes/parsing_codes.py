"""Explanations of what cannot be read as the language (P): title, explanation, bad, repaired."""

from __future__ import annotations

from typing import Final

PARSING: Final[dict[str, tuple[str, str, str, str]]] = {
    "P101": (
        "the source of a procedure cannot be found",
        "Procedures are read from the text of their file.  A function typed into a plain "
        "interpreter, or made by exec, has no file.",
        ">>> @proc\n... def f(n: size): pass",
        "# in f.py\n@proc\ndef f(n: size): pass",
    ),
    "P102": (
        "a name is not defined",
        "The name is no variable of the procedure, no name of the language, and no Python value "
        "of the enclosing scope.",
        "x: f32[8] @ CudaSharedMemory",
        "x: f32[8] @ CudaSmemLinear",
    ),
    "P103": (
        "a Python expression fails",
        "Expressions of the enclosing scope are evaluated once, when the procedure is read; this "
        "one raised an exception.",
        "x: f32[TILES['k']] @ DRAM  # KeyError",
        "x: f32[TILES['K']] @ DRAM",
    ),
    "P104": (
        "an integer must be known when the procedure is read",
        "This place takes an integer constant or a Python value, not a size or an iterator: skip "
        "counts, clusterDim, blockDim, warp ranges, divisors.",
        "CudaDeviceFunction(blockDim=n)  # n: size",
        "CudaDeviceFunction(blockDim=128)",
    ),
    "P105": (
        "a comparison is not in the language",
        "Conditions compare control expressions with ==, !=, <, <=, > and >=, chains included.",
        "if i in (0, 1): ...",
        "if i == 0 or i == 1: ...",
    ),
    "P106": (
        "this is no condition on control variables",
        "Guards and preconditions read sizes, index arguments and iterators only, so that all "
        "control is known without running the program.",
        "if x[i]: ...",
        "y[i] = select(0, x[i], x[i], 0)  # x[i] where it is positive",
    ),
    "P107": (
        "something is indexed that is no variable",
        "Only a variable or window can be indexed, by its name.",
        "(x)[0].y[1] = 0",
        "y[1] = 0",
    ),
    "P108": (
        "a window has a step",
        "Windows are dense ranges lo:hi, half-open.",
        "w = x[0:16:2]",
        "w = x[0:16]  # and index w[2 * i]",
    ),
    "P109": (
        "this is no data expression",
        "Data expressions are constants, elements of variables, + - * / // % & | ^ << >>, unary - "
        "and ~, conversions such as f32(x), and functions, which the page of the language lists.",
        "y[i] = sinh(x[i])",
        "y[i] = (exp(x[i]) - exp(-x[i])) / 2",
    ),
    "P110": (
        "a type is a string",
        "Types are written without quotes; `from __future__ import annotations` keeps Python from "
        "evaluating them.",
        ("@proc\ndef f(x: 'f32[8] @ DRAM'): ..."),
        ("@proc\ndef f(x: f32[8] @ DRAM): ..."),
    ),
    "P111": (
        "a call of something that is no instruction or procedure",
        "A procedure calls functions decorated with @instr, @macro or @proc, not ordinary Python "
        "functions: its body is parsed, never executed.",
        ("def helper(x): ...\n\n@proc\ndef f(n: size, x: f32[n] @ DRAM):\n    helper(x[:])"),
        (
            "@proc\n"
            "def helper(n: size, x: f32[n] @ DRAM): ...\n"
            "\n"
            "@proc\n"
            "def f(n: size, x: f32[n] @ DRAM):\n"
            "    helper(n, x[:])"
        ),
    ),
    "P112": (
        "an update that is no +=",
        "The only reducing assignment is `+=`, because addition is what instructions accumulate "
        "with.",
        "x[i] *= 2.0",
        "x[i] = x[i] * 2.0",
    ),
    "P113": (
        "a precondition comes too late",
        "An assert states what the procedure asks of its sizes; it stands before all statements.",
        "x: f32[n] @ DRAM\nassert n % 2 == 0",
        "assert n % 2 == 0\nx: f32[n] @ DRAM",
    ),
    "P114": (
        "a statement is not in the language",
        "A procedure consists of loops, guards, with-blocks for launches and warps, declarations, "
        "assignments, windows, calls and synchronisation.",
        "while i < n: ...",
        "for i in seq(0, n): ...",
    ),
    "P115": (
        "a declaration has a value that it cannot have",
        "A declaration of one element may have a value, which is assigned to it.  An array is "
        "assigned element by element, and a control value has no type.",
        "x: f32[4] = 0.0",
        "x: f32[4]\nfor i in seq(0, 4):\n    x[i] = 0.0",
    ),
    "P116": (
        "a loop has more than one iterator, or an else",
        "A loop runs one iterator over a range of integers.  One over a Python iterable, which is "
        "unrolled, may have several names, as many as each value has parts.",
        "for i, j in seq(0, n): ...",
        "for i in seq(0, n):\n    for j in seq(0, n): ...",
    ),
    "P117": (
        "this is no loop of the language",
        "Loops are seq, cuda_tasks and cuda_threads; a loop over a Python iterable of the "
        "enclosing scope is unrolled.",
        "for i in range(n): ...  # n: size",
        "for i in seq(0, n): ...",
    ),
    "P118": (
        "this with-block is not in the language",
        "The with-blocks are CudaDeviceFunction, one kernel launch, and CudaWarps, a range of "
        "warps of it.",
        "with open('f') as f: ...",
        ("with CudaDeviceFunction(blockDim=128):\n    for task in cuda_tasks(0, 1): ..."),
    ),
    "P119": (
        "an expression has no effect",
        "An expression alone is a statement only if it is a call of an instruction, a procedure, "
        "Fence, Arrive or Await.",
        "x[i] + 1",
        "y[i] = x[i] + 1",
    ),
    "P120": (
        "a loop's bounds are not lo and hi",
        "Loops take both bounds, cuda_threads also unit=, and seq may have unroll=.",
        "for i in seq(n): ...",
        "for i in seq(0, n): ...",
    ),
    "P121": (
        "a launch is not described",
        "CudaDeviceFunction takes clusterDim, and either blockDim or warp_config.",
        ("with CudaDeviceFunction(128):\n    for task in cuda_tasks(0, 1): ..."),
        ("with CudaDeviceFunction(blockDim=128):\n    for task in cuda_tasks(0, 1): ..."),
    ),
    "P122": (
        "the arguments of CudaWarps are wrong",
        "CudaWarps takes lo and hi, both or none, and the name of a warp group.",
        "with CudaWarps(4): ...",
        'with CudaWarps(0, 4, name="consumer"): ...',
    ),
    "P123": (
        "the arguments of Fence are wrong",
        "A Fence has a sync timeline for what comes before it, and one for what comes after.",
        "Fence(cuda_in_order)",
        "Fence(cuda_in_order, cuda_in_order)",
    ),
    "P124": (
        "the arguments of Arrive are wrong",
        "An Arrive has one sync timeline, and after >> the barrier elements that it signals.",
        "Arrive(z)",
        "Arrive(cuda_in_order) >> z",
    ),
    "P125": (
        "the arguments of Await are wrong",
        "An Await has a barrier element, a sync timeline, and perhaps a count.",
        "Await(z)",
        "Await(z, cuda_in_order, ~0)",
    ),
    "P126": (
        "parameters have defaults or stars",
        "A procedure's parameters are a plain list; compile-time parameters are Python values of "
        "the enclosing scope, or keyword parameters of an @instr.",
        "def f(n: size = 8): ...",
        "def f(n: size): ...",
    ),
    "P127": (
        "a parameter has no type",
        "Every parameter is a size, an index, or data with its precision, extents and memory.",
        "def f(n, x): ...",
        "def f(n: size, x: f32[n] @ DRAM): ...",
    ),
    "P128": (
        "a barrier is no parameter",
        "Barriers live inside one task of a kernel; instructions signal one by a trailing >>.",
        "def f(z: barrier @ CudaMbarrier): ...",
        "z: barrier @ CudaMbarrier  # inside the cuda_tasks loop",
    ),
    "P129": (
        "an ill-formed procedure is called",
        "The definition of the called procedure was refused, so that nothing is known of what "
        "the call does, and the caller is refused as well.",
        "def copy(n: size, x: f32[n]): x[i] = 0  # there is no i\n"
        "def twice(n: size, x: f32[n]): copy(n, x)",
        "def copy(n: size, x: f32[n]):\n    for i in seq(0, n):\n        x[i] = 0",
    ),
    "P130": (
        "something is nested too deep",
        "Expressions, blocks and calls may be nested 100 levels deep, and expressions 200 where "
        "calls and windows are inlined.  Each operator is a level, each `and` too: a sum of 200 "
        "terms is 199 levels deep.",
        "x[0] = y[0] + y[1] + y[2] + ...  # 200 terms",
        "x[0] = 0.0\nfor i in seq(0, 200):\n    x[0] += y[i]",
    ),
    "P131": (
        "a name cannot be used",
        "Names of procedures, parameters, variables and iterators become names of solvers and of "
        "CUDA, which have the letters of ASCII, digits and underscores; Python values of the "
        "enclosing scope may have any name.  Sizes and arrays are also passed by name, next to "
        "the options self, policy, progress, timeout, memory and stream.",
        "for größe in seq(0, n): ...",
        "for extent in seq(0, n): ...",
    ),
    "P132": (
        "a procedure is too large",
        "A procedure may have 256 parameters, and 20,000 statements with the loops that Python "
        "unrolls and the procedures that it calls written out.",
        (
            "for i in range(200):  # Python's loops are unrolled\n"
            "    for j in range(200):\n"
            "        x[200 * i + j] = 0.0"
        ),
        ("for i in seq(0, 40000):\n    x[i] = 0.0"),
    ),
    "P133": (
        "a macro is called by Python",
        "The statements of a macro are read where a procedure calls it; as a procedure's, they are "
        "never executed.",
        ("@macro\ndef clear(x):\n    x[0] = 0.0\n\nclear([1.0])  # at the top of the file"),
        (
            "@macro\n"
            "def clear(x):\n"
            "    x[0] = 0.0\n"
            "\n"
            "@proc\n"
            "def f(n: size, x: f32[n] @ DRAM):\n"
            "    clear(x)"
        ),
    ),
    "P134": (
        "a name for one element",
        "`v = x[i]` reads as a copy of the element.  A name without a type is one of a window, "
        "which is no copy: what is stored through it changes x, and it changes with x.  So one "
        "element is copied by a declaration, v: f32 = x[i], or windowed by x[i : i + 1].",
        "v = x[i]\nx[i] = y[i]\ny[i] = v  # a swap, as it looks",
        "v: f32 = x[i]\nx[i] = y[i]\ny[i] = v",
    ),
    "P135": (
        "uninit takes one window of a variable",
        "uninit(x[lo:hi]) says that the values of these elements do not matter where it stands, so "
        "that they may be read though nothing has written them.  x is a variable that the "
        "procedure allocates.",
        "uninit()",
        "uninit(x)",
    ),
}
"""By code."""
