"""Explanations of what goes wrong when exogpu is called: arguments of a run (X92x), targets and
options of the command line (X94x)."""

from __future__ import annotations

from typing import Final

INVOCATION: Final[dict[str, tuple[str, str, str]]] = {
    "X920": (
        "an unknown argument",
        "The call of run names an argument that the procedure does not have.",
        "gemv.run(M=64, K=64, a=a, x=x, y=y)  # the parameter is called A\n"
        "# repair\n"
        "gemv.run(M=64, K=64, A=a, x=x, y=y)",
    ),
    "X921": (
        "an array is missing",
        "A run needs an array for every data parameter; sizes may follow from the shapes of the "
        "arrays, arrays never follow from anything.",
        "gemv.run(A=a, x=x)\n# repair: the result's array too\ngemv.run(A=a, x=x, y=y)",
    ),
    "X922": (
        "an argument has the wrong type",
        "Arrays must be numpy arrays of the declared precision, sizes must be integers.  Nothing "
        "is converted, because a run works in place.  A bf16 parameter takes a float32 array.",
        "gemv.run(A=np.zeros((64, 64)), x=x, y=y)  # float64, and A is f32\n"
        "# repair\n"
        "gemv.run(A=np.zeros((64, 64), np.float32), x=x, y=y)",
    ),
    "X923": (
        "an array has the wrong shape",
        "The arrays' shapes must agree with the declared ones, with one another and with the "
        "sizes given.",
        "gemv.run(A=np.zeros((64, 32), np.float32), x=np.zeros(64, np.float32), y=y)\n"
        "# repair: x has as many elements as A has columns\n"
        "gemv.run(A=np.zeros((64, 32), np.float32), x=np.zeros(32, np.float32), y=y)",
    ),
    "X924": (
        "values are not bf16",
        "numpy has no bf16, so that a bf16 parameter takes a float32 array; its values must be "
        "ones that bf16 holds, or the run would not compute what the hardware does.",
        "k.run(x=values)\n"
        "# repair\n"
        "from exogpu.machine.sequential import round_bf16\n"
        "k.run(x=round_bf16(values))",
    ),
    "X925": (
        "a written array is read-only",
        "The procedure writes this parameter, in place, and the array given must not be written.",
        "k.run(y=np.broadcast_to(0.0, 64))\n# repair\nk.run(y=np.zeros(64, np.float32))",
    ),
    "X926": (
        "two arguments share memory",
        "A parameter that is written shares memory with another one.  Parameters are different "
        "variables in every check, so what such a call does was never judged.",
        "reverse.run(x=a, y=a)\n# repair\nreverse.run(x=a.copy(), y=a)",
    ),
    "X927": (
        "a run left a variable",
        "A run on concrete values accessed an element that a variable does not have.",
        "y[i + 1] = x[i]  # in the last iteration\n"
        "# repair: guard the access\n"
        "if i + 1 < N:\n"
        "    y[i + 1] = x[i]",
    ),
    "X928": (
        "a run broke a precondition",
        "During a run, a called procedure or instruction got arguments that break one of its "
        "preconditions.",
        "half(n, x[0:n])  # asserts n % 2 == 0, and n is 3\n# repair: call it with an even n",
    ),
    "X929": (
        "an integer was divided by zero",
        "A run on concrete values divided an integer by zero; floats give infinities or NaN.",
        "y[i] = a[i] / b[i]  # i32, and b has a 0\n"
        "# repair: select(0, b, b, 1) divides by 1 where b is not positive\n"
        "y[i] = a[i] / select(0, b[i], b[i], 1)",
    ),
    "X940": (
        "a package is missing",
        "exogpu is installed without one of the packages it needs, or the package is broken.",
        "exogpu check gemm.py\n"
        "# repair: it names each missing part and the command that installs it\n"
        "exogpu doctor",
    ),
    "X941": (
        "there is no such target",
        "A target is a .py file, a folder, a dotted module or a dotted package; `::PROC` after "
        "it chooses one procedure.",
        "exogpu check kernels/gem.py\n# repair\nexogpu check kernels/gemm.py",
    ),
    "X942": (
        "the target is no Python source",
        "The file has another name than *.py, or it does not parse as Python, or the module is "
        "compiled.  Kernels are written in Python's syntax, whatever the language means by it.",
        "def gemm(M: size,:\n    ...\n# repair\ndef gemm(M: size):\n    ...",
    ),
    "X943": (
        "the target has no procedure",
        "Only functions decorated with @proc are kernels; the target has none.  In a folder, only "
        "files that import exogpu or use @proc are loaded.",
        "def copy(n: size, x: f32[n] @ DRAM): ...\n"
        "# repair\n"
        "from exogpu import *\n"
        "@proc\n"
        "def copy(n: size, x: f32[n] @ DRAM): ...",
    ),
    "X944": (
        "loading the target stopped",
        "The bodies of procedures are never executed, but everything around them is ordinary "
        "Python that runs when the file is loaded, and it raised an exception.",
        "TILE = int(os.environ['TILE'])  # KeyError\n"
        "# repair: the line must run wherever the file is checked\n"
        "TILE = int(os.environ.get('TILE', '128'))",
    ),
    "X945": (
        "there is no such procedure",
        "The target has procedures, but none of the name after `::`.  The name is that of the "
        "function, or the one that @proc(name=...) gives.",
        "exogpu check gemv.py::gemm\n# repair\nexogpu check gemv.py::gemv",
    ),
    "X946": (
        "--at is no list of sizes",
        "Sizes are given as name=integer, with commas between them; one name has one value.",
        "exogpu check gemm.py --at M:512\n# repair\nexogpu check gemm.py --at M=512,N=512",
    ),
    "X947": (
        "there is no such code",
        "Codes are a letter and three digits, such as B601.",
        "exogpu explain B6\n# repair: list all codes\nexogpu explain",
    ),
    "X948": (
        "a result cannot be written",
        "The file that --sarif or --junit names cannot be written: its folder does not exist, or "
        "it is not writable.",
        "exogpu check gemm.py --sarif out/gemm.sarif\n"
        "# repair: make the folder first\n"
        "mkdir out; exogpu check gemm.py --sarif out/gemm.sarif",
    ),
    "X949": (
        "a run has no data",
        "`exogpu run` works on random data, and says so only if it is told to.",
        "exogpu run gemv.py --at M=64,K=64\n# repair\nexogpu run gemv.py --random --at M=64,K=64",
    ),
}
"""Title, explanation and example by code."""
