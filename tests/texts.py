"""Procedures out of text."""

from __future__ import annotations

import linecache

from exogpu import proc
from exogpu.api import Procedure, collecting
from exogpu.isa import cuda, sm80, sm90


def made(text: str) -> Procedure:
    """The only procedure that a text defines, all platforms' names known."""
    with collecting() as found:
        run_text(text)
    (procedure,) = found
    return procedure


def run_text(text: str) -> None:
    """Runs a text with procedures in it, all platforms' names known."""
    file = f"<text {hash(text)}>"
    source = "from __future__ import annotations\n" + text
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(
        compile(source, file, "exec"),
        {**vars(cuda), **vars(sm80), **vars(sm90), "proc": proc},
    )
