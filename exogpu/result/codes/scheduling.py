"""Explanations of what goes wrong while a procedure is scheduled (X99x)."""

from __future__ import annotations

from typing import Final

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
