"""`exogpu explain NAME`: a code, a kind of hazard, or a timeline."""

from __future__ import annotations

from difflib import get_close_matches
from textwrap import fill

from rich.text import Text

from exogpu.cli.render import draw_code
from exogpu.explain.words import CODES as CODE_OF
from exogpu.hw.accesses import explained, known_names
from exogpu.result.codes import CODES


def draw_name(name: str) -> Text | None:
    """Draws the meaning of a name in a message; None for one that no message has."""
    code = {kind.value: of for kind, of in CODE_OF.items()}.get(name.upper(), name.upper())
    if code in CODES:
        return draw_code(code, CODES[code])
    told = explained(name)
    if told is None:
        return None
    title, lines = told
    text = Text.assemble((f"{title}\n\n", "bold"))
    return text.append("\n".join(map(fill, lines.splitlines()))).append("\n")


def nearest(name: str) -> str:
    """Returns the known name closest to this one."""
    known = {one.lower(): one for one in (*CODES, *(k.value for k in CODE_OF), *known_names())}
    close = get_close_matches(name.lower(), known, n=1)
    listed = "`exogpu explain` lists all codes"
    return f"did you mean {known[close[0]]}? {listed}" if close else listed
