"""Explanations of what goes wrong on the command line (X94x: targets, options, files; X96x:
compilation; X97x: certificates; X98x: reports)."""

from __future__ import annotations

from typing import Final

INVOCATION: Final[dict[str, tuple[str, str, str]]] = {
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
        "def gemm(M: size,:\n    pass\n# repair\n@proc\ndef gemm(M: size):\n    pass",
    ),
    "X943": (
        "the target has no procedure",
        "Only functions decorated with @proc are kernels; the target has none.  In a folder, only "
        "files that import exogpu or use @proc are loaded.",
        "def copy(n: size, x: f32[n] @ DRAM):\n"
        "    pass\n"
        "# repair\n"
        "from exogpu import *\n"
        "\n"
        "@proc\n"
        "def copy(n: size, x: f32[n] @ DRAM):\n"
        "    pass",
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
        "exogpu check gemm.py --at M:512\n# repair\nexogpu check gemm.py --at M=512,N=512,K=256",
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
        "# repair: a folder that is there\n"
        "exogpu check gemm.py --sarif gemm.sarif",
    ),
    "X949": (
        "a run has no data",
        "`exogpu run` works on random data, and says so only if it is told to.",
        "exogpu run gemv.py --at M=64,K=64\n# repair\nexogpu run gemv.py --random --at M=64,K=64",
    ),
    "X955": (
        "exogpu failed",
        "Something went wrong in exogpu itself: it says nothing about the kernel, and the exit "
        "status is 4.  With EXOGPU_DEBUG=1 the traceback is printed too, which belongs into a bug "
        "report together with the kernel.",
        "exogpu compile gemm.py -o build  # exit status 4\n"
        "# repair: report it, with what this prints\n"
        "EXOGPU_DEBUG=1 exogpu compile gemm.py -o build",
    ),
    "X956": (
        "the memory is used up",
        "The command needs more memory than it can have.  It is not decided: exit status 3.",
        "exogpu run gemm.py --random --at M=65536,N=65536,K=65536\n"
        "# repair\nexogpu run gemm.py --random --at M=512,N=512,K=512",
    ),
    "X957": (
        "the system refuses a file or the output",
        "A file cannot be read or written, or what is printed cannot: the disk is full, or the "
        "folder is not writable.",
        "exogpu check gemm.py > /dev/full\n# repair\nexogpu check gemm.py > verdict.txt",
    ),
    "X958": (
        "the arrays of a run are too large",
        "`exogpu run` fills every array with random data; together they may take half of the "
        "machine's memory.",
        "exogpu run gemv.py --random --at M=100000000000,K=64\n"
        "# repair\nexogpu run gemv.py --random --at M=512,K=64",
    ),
    "X960": (
        "a procedure that is not proved is not compiled",
        "What is not proved for all sizes may be checked at sizes that you give, or compiled "
        "unchecked; the manifest says which it was.  What is refuted at any size is not compiled, "
        "even if it is safe at those given.",
        "exogpu compile gemm.py -o build\n"
        "# repair\n"
        "exogpu compile gemm.py -o build --at M=512,N=512,K=512",
    ),
    "X961": (
        "emitted code cannot be compiled",
        "A cubin needs NVRTC or nvcc; a shared object needs nvcc and a host C++ compiler.  If one "
        "is found and refuses the code, the message has its text: a kernel may take more "
        "registers than a CTA has.",
        "exogpu compile gemm.py -o build --cubin\n# repair\npip install 'exogpu[cuda]'",
    ),
    "X962": (
        "a task order is not known",
        "Clusters take the tasks of a kernel in an order that may be chosen, because tasks are "
        "unordered: it changes the speed alone.",
        "exogpu compile gemm.py -o build --task-order rows\n"
        "# repair\nexogpu compile gemm.py -o build --task-order grouped:8",
    ),
    "X963": (
        "an architecture is not known",
        "Kernels are compiled for sm_90a, and those that use nothing of Hopper also for sm_80, "
        "sm_86, sm_87 and sm_89.",
        "exogpu compile gemm.py -o build --arch hopper\n"
        "# repair\nexogpu compile gemm.py -o build --arch sm_90a",
    ),
    "X964": (
        "sizes of a product are not understood",
        "`exogpu tune gemm` takes sizes as MxNxK, or LxMxNxK of L products, and `exogpu tune gemv` "
        "as MxK.  Rows of 16 bytes, which TMA and vector loads take, make K a multiple of 4, and "
        "of 8 for types of 16 bits.",
        "exogpu tune gemm 4096\n# repair\nexogpu tune gemm 4096x4096x4096",
    ),
    "X965": (
        "kernels cannot be timed here",
        "`exogpu tune` compiles kernels and runs them on a GPU of the machine: it needs a GPU, its "
        "driver, a compiler and memory for the arrays.",
        "exogpu tune gemm 4096x4096x4096  # where there is no GPU\n"
        "# repair: it says which part is missing\nexogpu doctor",
    ),
    "X970": (
        "there is no certificate",
        "`exogpu recheck` takes the folder of a certificate, which has a certificate.json, or a "
        "folder that holds such folders.",
        "exogpu recheck proofs/gem\n# repair\nexogpu recheck proofs/gemm",
    ),
    "X971": (
        "a certificate cannot be read",
        "The folder's certificate.json is missing or broken, is no certificate, has another "
        "version of the format, or a field or value that the format does not know.  Nothing is "
        "said of the proof: a certificate that can be read, and is wrong, is rejected instead.",
        "exogpu recheck proofs/gemm  # its certificate.json was cut off\n"
        "# repair: make it again\nexogpu report gemm.py -o proofs",
    ),
    "X972": (
        "there is no such solver",
        "Certificates are answered by Z3, which exogpu needs anyway, and by cvc5 where it is "
        "installed.",
        "exogpu recheck proofs --solver cvc5\n# repair\npip install cvc5",
    ),
    "X980": (
        "a report needs a target",
        "`exogpu report` writes the reports of one target, or with --all those of the shipped "
        "kernels.",
        "exogpu report -o out\n# repair\nexogpu report gemm.py -o out",
    ),
    "X981": (
        "this names no line",
        "`exogpu why` takes a file and the number of a line in it, with a colon between them.",
        "exogpu why gemm.py\n# repair\nexogpu why gemm.py:58",
    ),
    "X982": (
        "there is nothing to explain on this line",
        "`exogpu why` explains statements that synchronise, and accesses: the line has neither.",
        "exogpu why gemm.py:1\n# repair: the line of a Fence, Arrive or Await\n"
        "exogpu why gemm.py:58",
    ),
    "X983": (
        "there is nothing to compare with",
        "`exogpu report --against` takes a folder that `exogpu report` wrote, a certificate, or an "
        "older source with the same procedures.  The one given has none, or cannot be read.",
        "exogpu report gemm.py -o new --against empty\n"
        "# repair\nexogpu report gemm.py -o new --against old",
    ),
}
"""Title, explanation and example by code."""


# Explanations of what goes wrong while a procedure is scheduled (X99x).

SCHEDULING: Final[dict[str, tuple[str, str, str]]] = {
    "X990": (
        "a cursor finds nothing",
        "A pattern matches no statement of the procedure, or fewer than its number asks for; or a "
        "cursor is of another procedure, or its statement is gone.  The nearest statements are "
        "named with their lines.",
        'divide_loop(gemm, "for kk in _: _", 8, ["ko", "ki"], tail="guard")  # the loop is over k\n'
        "# repair\n"
        'divide_loop(gemm, "for k in _: _", 8, ["ko", "ki"], tail="guard")',
    ),
    "X991": (
        "a primitive does not apply to this statement",
        "Each primitive asks for a certain form of statement, which its documentation shows: a "
        "loop whose body is one loop, an allocation, an `if` that is alone in its block.",
        'reorder_loops(gemm, "for j in _: _")  # two statements stand in the loop\n'
        "# repair: make the inner loop the only statement\n"
        'p = fission(gemm, find(gemm, "C[_] = _").after())\n'
        'reorder_loops(p, "for j in _: _ #1")',
    ),
    "X992": (
        "a rewriting would change what is computed",
        "At the sizes named, which are the smallest found, the new procedure would not do what the "
        "old one does: an instance of a statement is lost or runs twice, a dependence between the "
        "two statements is reversed, a value is read that is another's, or an access leaves its "
        "variable.",
        'divide_loop(gemm, "for i in _: _", 8, ["io", "ii"], tail="perfect")  # M = 1\n'
        "# repair: a precondition, assert M % 8 == 0, or a guard\n"
        'divide_loop(gemm, "for i in _: _", 8, ["io", "ii"], tail="guard")',
    ),
    "X993": (
        "it is not decided whether a rewriting changes what is computed",
        "The integer sets of the question became too large.  What is not decided is refused.",
        'divide_loop(gemm, "for i in _: _", 7919, ["io", "ii"], tail="guard")  # undecided\n'
        "# repair: a smaller step, or a precondition\n"
        'divide_loop(gemm, "for i in _: _", 8, ["io", "ii"], tail="guard")',
    ),
    "X994": (
        "a procedure with slots is not rewritten",
        "`slot(b)` is the number of Arrives on b so far.  Primitives move, copy and leave out "
        "statements, Arrives among them, and keep no account of that number.",
        'divide_loop(kernel, "for k in _: _", 4, ["ko", "ki"], tail="guard")  # it has slots\n'
        "# repair: schedule it with tile[k % 4, t], and write the slots last\n"
        'divide_loop(without_slots, "for k in _: _", 4, ["ko", "ki"], tail="guard")',
    ),
    "X995": (
        "a procedure with values from memory is not rewritten",
        "`load_index` reads an array that no statement writes, and contracts say what it holds.  "
        "Primitives move and copy statements, and keep no account of that.",
        'divide_loop(gather, "for i in _: _", 4, ["io", "ii"], tail="guard")  # it loads perm[i]\n'
        "# repair: schedule it with an index argument, and write load_index last\n"
        'divide_loop(without_loads, "for i in _: _", 4, ["io", "ii"], tail="guard")',
    ),
}
"""Title, explanation and example by code."""
