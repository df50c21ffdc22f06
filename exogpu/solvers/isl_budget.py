"""A budget for ISL, in its own operations: the same on every machine.

Beside `exogpu.solvers.isl`, a file that imports islpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import islpy


class IslGaveUpError(Exception):
    """ISL could not answer, most often for lack of operations."""


LOUD = False
"""Whether what ISL cannot answer, and has operations left for, is raised as it is: in tests and
campaigns, since it is most often a mistake of who asks, such as a name that is declared nowhere."""


@contextmanager
def limited(operations: int) -> Iterator[None]:
    """Within it, ISL may make so many operations; beyond them IslGaveUpError is raised.

    Some ten million are a second.  Budgets do not nest.
    """
    context = islpy.DEFAULT_CONTEXT
    context.reset_operations()
    context.set_max_operations(operations)
    try:
        yield
    except islpy.Error as error:
        if LOUD and _has_some_left():
            raise
        raise IslGaveUpError(str(error)) from error
    finally:
        context.set_max_operations(0)


def _has_some_left() -> bool:
    """Tests whether ISL may make some more operations. Its message does not tell: text in the
    middle of which they end is a syntax error, too."""
    try:
        return not islpy.Set("{ [i] : 0 <= i < 3 }").is_empty()
    except islpy.Error:
        return False


def whole(value: islpy.Val) -> int:
    """An integer of ISL.  Raises IslGaveUpError where no operation is left to print it: islpy then
    gives no text, and raises nothing."""
    text: str | None = value.to_str()
    if text is None:
        raise IslGaveUpError("an integer could not be printed")
    return int(text)
