"""Codes of kernels that others compile: what keeps one from being imported."""

from __future__ import annotations

from typing import Final

IMPORTING: Final[dict[str, tuple[str, str, str]]] = {
    "K101": (
        "this is no TTGIR that exogpu reads",
        "The reader accounts for every line: each is an operation, the head or end of a region, an "
        "alias or a location, as Triton 3.8 and 3.9 print them.  Nothing is passed over: what "
        "is not read is not proved.",
        "exogpu check kernel.ttgir  # of another compiler, or cut off\n"
        "# repair: take the file that Triton wrote\n"
        'exogpu check kernel.py::kernel --args "fp16[2048, 2048], 2048, BLOCK=128"',
    ),
    "K102": (
        "an operation of TTGIR is not known",
        "exogpu has a table of operations with what each accesses and what orders it.  An "
        "operation that is not there may access memory, so the kernel is not imported.",
        "x = tl.histogram(values, 64)  # exogpu knows no accesses of it\n"
        "# repair: none in the kernel; the table needs a row",
    ),
    "K103": (
        "a slot, phase, predicate or trip count is not known exactly",
        "What decides which memory is accessed, or what is waited for, has to be an affine "
        "expression of loop counters, program ids and arguments, with division and remainder by "
        "constants.  Counters that loops carry are found by guessing a closed form and proving it "
        "by induction.",
        "slot = tl.load(order + step)  # data chooses the slot\n"
        "# repair: count the slots\n"
        "slot = step % DEPTH",
    ),
    "K104": (
        "a kernel does something that exogpu does not translate yet",
        "The operation is known; this use of it has no translation that is exact, or not looser "
        "than what the hardware does.",
        "mbarrier.arrive(bar, count=2)  # exogpu reads arrivals of count 1\n"
        "# repair: arrive once in each phase\n"
        "mbarrier.arrive(bar, count=1)",
    ),
    "K105": (
        "no sequential reading of the roles was found",
        "The partitions of a warp-specialised kernel are read side by side, as one sequential "
        "program: loops of one trip count become one loop.  Roles whose loops run differently "
        "often are not read yet.  Roles that wait for each other for ever are refuted instead "
        "(H706).",
        "for step in range(0, steps): ...      # one role\n"
        "for step in range(0, steps + 1): ...  # another\n"
        "# repair: let both loops run as often\n"
        "for step in range(0, steps): ...",
    ),
    "K106": (
        "Triton is not installed, or too old",
        "Kernels of Python files are compiled by Triton itself, which needs no GPU for it.  "
        "Before 3.9 it places its barriers where they are not seen.",
        "exogpu check kernel.py::kernel --args ...  # without Triton\n"
        "# repair:\n"
        "pip install 'exogpu[triton]'",
    ),
    "K107": (
        "a file has no such kernel",
        "The name after :: is a function with @triton.jit or @gluon.jit, possibly tuned; and the "
        "file can be imported without a GPU.  torch, numpy and pytest need not be installed.",
        "exogpu check kernel.py::main --args ...  # main launches it\n"
        "# repair: name the kernel\n"
        "exogpu check kernel.py::kernel --args ...",
    ),
    "K108": (
        "Triton does not compile the kernel",
        "The message is Triton's.  Often an argument is missing: those of a launch are given, "
        "constants too.",
        'exogpu check kernel.py::kernel --args "fp16[2048, 2048]"  # BLOCK is missing\n'
        "# repair:\n"
        'exogpu check kernel.py::kernel --args "fp16[2048, 2048], BLOCK=128"',
    ),
    "K109": (
        "the arguments of --args are missing, or not understood",
        "Arguments are separated by commas, those with names last: a tensor as type[extents], a "
        "descriptor for TMA as type[extents]:desc(block), anything else as an expression of Python "
        "with the names of the file.",
        '--args "fp16(2048, 2048)"  # a call\n'
        "# repair: extents in square brackets\n"
        '--args "fp16[2048, 2048]"',
    ),
    "K110": (
        "a kernel is wrong, as reading it shows",
        "The kernel is refuted with this as its hazard: an mbarrier expects other bytes than are "
        "loaded, or roles wait for each other for ever.",
        "mbarrier.expect(bar, a.block_type.nbytes)  # and two tiles are loaded\n"
        "# repair: expect the bytes of both\n"
        "mbarrier.expect(bar, a.block_type.nbytes + b.block_type.nbytes)",
    ),
    "K111": (
        "Triton lowers a kernel otherwise than exogpu knows",
        "A proof of TTGIR holds of the kernel that runs only if PTX synchronises as the operations "
        "say.  exogpu has a table of what each version of Triton adds, and compares each kernel's "
        "PTX with it, line by line.  Here they differ, so nothing is claimed.",
        "exogpu check kernel.py::kernel --args ...  # with another version of Triton\n"
        "# repair: use one whose lowering is known\n"
        "pip install 'triton>=3.9,<3.10'",
    ),
}
"""By code: a title, an explanation, an example with its repair."""
