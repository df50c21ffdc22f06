"""Drawing diagnostics and verdicts for a reader: the source line, carets, and the remedy.

Every function returns a `rich.text.Text`; its `.plain` is what a pipe gets.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill, indent, wrap
from typing import Final, assert_never

from rich.cells import cell_len
from rich.console import Console, ConsoleRenderable, RenderHook
from rich.style import Style
from rich.text import Text

from exogpu.diagnostics.codes import Code
from exogpu.diagnostics.errors import Diagnostic, Span
from exogpu.diagnostics.hazards import Hazard, HazardKind, Occurrence
from exogpu.diagnostics.verdict import Redundancy, Verdict
from exogpu.frontend.quote import lines_of

# Describes how the two statements of a hazard relate to each other.

ROLES: Final[dict[HazardKind, tuple[str, str]]] = {
    HazardKind.RAW: ("the write", "the read that may not see it"),
    HazardKind.WAR: ("the read", "the write that may overtake it"),
    HazardKind.WAW: ("the write", "the write that may overtake it"),
    HazardKind.LEAK: ("the write of another task", "the read that finds it"),
    HazardKind.UNINIT: ("the variable", "the read that finds no value"),
    HazardKind.FREE: ("the access", "where its memory ends"),
    HazardKind.BARRIER: ("the barrier", "where arrives and awaits do not agree"),
    HazardKind.DEADLOCK: ("what waits", "what does not let it end"),
    HazardKind.PHASE: ("the waiter", "what may run a whole ring ahead of it"),
    HazardKind.DIVERGENCE: ("the scope", "what its threads do not all reach"),
    HazardKind.OWNERSHIP: ("the variable", "the access by another unit than its own"),
    HazardKind.BOUNDS: ("the variable", "the access outside of it"),
    HazardKind.OVERLAP: ("the variable", "the call that takes its elements twice"),
    HazardKind.SLOT: ("the access by a slot", "the access that is elsewhere to it in another task"),
    HazardKind.ALIGN: ("the variable", "the call that asks for another place"),
}
"""The first and the second site, by kind, where the sites do not say it themselves."""


def roles_of(hazard: Hazard) -> tuple[str, str]:
    """The roles of the first and of the second site."""
    first, second = ROLES[hazard.kind]
    second = hazard.second.role or second
    if hazard.second.ends is not None and hazard.kind is HazardKind.FREE:
        second = f"{second} (declared at line {hazard.second.span.line})"
    return (hazard.first and hazard.first.role) or first, second


MOST_LINES: Final = 6
"""So many lines of a span are drawn."""


PROSE: Final = Style(meta={"prose": True})
"""The style of sentences, which a terminal may break between words; lines of source stay whole."""


def console(*, stderr: bool = False) -> Console:
    """A console that neither wraps nor colours in a pipe, nor colours where NO_COLOR is set; on a
    terminal sentences are as wide as it is."""
    made = _Console(stderr=stderr, soft_wrap=True, highlight=False, markup=False, emoji=False)
    made.push_render_hook(_Wrapping(made))
    return made


class _Wrapping(RenderHook):
    def __init__(self, console: Console) -> None:
        self._console = console

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Breaks sentences where there is a terminal."""
        if not self._console.is_terminal:
            return renderables
        width = self._console.width
        return [wrapped(one, width) if isinstance(one, Text) else one for one in renderables]


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """The command ends by it, not with the status that rich would choose."""
        raise BrokenPipeError


def wrapped(text: Text, width: int) -> Text:
    """The text with its sentences broken between words, further lines under the first."""
    lines = text.split("\n", allow_blank=True)
    return Text("\n", end=text.end).join(_wrapped(line, width) for line in lines)


def _wrapped(line: Text, width: int) -> Text:
    starts = [s.start for s in line.spans if isinstance(s.style, Style) and s.style.meta]
    if not starts or cell_len(line.plain) <= width:
        return line
    before, prose = line[: min(starts)], line.plain[min(starts) :]
    own = len(prose) - len(prose.lstrip()) if not before.plain else 0
    first, rest = " " * (before.cell_len + own), " " * max(own, 4)
    broken = wrap(
        prose,
        max(width, 24),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return before.append("\n".join(broken)[before.cell_len :])


def place(span: Span) -> str:
    """`file:line:column`, the file relative to the working directory where it lies below it."""
    return f"{shown_path(span.file)}:{span.line}:{span.column}"


def shown_path(file: str) -> str:
    """The file relative to the working directory where it lies below it, else as it is."""
    try:
        relative = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if relative.startswith(os.pardir) else relative


def draw_span(span: Span, indent: str = "  ") -> Text:
    """The source lines and, below each, carets under the span; empty where the text is not known.

    Of a span over many lines the first are drawn.
    """
    if not span.line or not span.text.strip():
        return Text()
    drawn = Text()
    lines = lines_of(span)
    for at, text in enumerate(lines[:MOST_LINES]):
        start = max(span.column - 1, 0) if at == 0 else len(text) - len(text.lstrip())
        last = span.line + at == span.end_line
        end = span.end_column - 1 if last else len(text.rstrip())
        before, under = _untab(text[:start]), _untab(text[start : max(end, start + 1)])
        gutter = f"{indent}{span.line + at:>5} | "
        carets = " " * cell_len(before) + "^" * max(cell_len(under), 1)
        drawn.append(gutter, "blue").append(f"{_untab(text.rstrip())}\n")
        drawn.append(" " * (len(gutter) - 2) + "| ", "blue").append(f"{carets}\n", "bold red")
    if lines[MOST_LINES:]:
        drawn.append(" " * len(indent) + "  ... | ", "blue")
        drawn.append(f"and {len(lines) - MOST_LINES} more lines\n", "dim")
    return drawn


def _untab(text: str) -> str:
    return text.replace("\t", "    ")


def draw_diagnostic(diagnostic: Diagnostic, *, warning: bool = False) -> Text:
    """One finding: its place, code and message, the line with carets, its notes, the remedy."""
    text = Text()
    if diagnostic.span.line:
        text.append(f"{place(diagnostic.span)}: ", "bold")
    word, colour = ("warning", "bold yellow") if warning else ("error", "bold red")
    text.append(f"{word} {diagnostic.code}: ", colour)
    text.append(Text(diagnostic.message, PROSE + Style(bold=True))).append("\n")
    text.append(draw_span(diagnostic.span))
    for note in diagnostic.notes:
        text.append(f"  {place(note.span)}: " if note.span.line else "  ")
        text.append("note: ", "cyan")
        text.append(f"{note.message}\n")
        text.append(draw_span(note.span))
    text.append("  remedy: ", "green")
    return text.append(_hanging(diagnostic.help)).append("\n")


def draw_diagnostics(diagnostics: Iterable[Diagnostic], *, warning: bool = False) -> Text:
    """All findings in the order of their places, each drawn once."""
    ordered = sorted(dict.fromkeys(diagnostics), key=lambda d: (d.span, d.code, d.message))
    return Text("\n").join(draw_diagnostic(d, warning=warning) for d in ordered)


def draw_verdict(verdict: Verdict, file: str = "") -> Text:
    """The verdict in a line, then what it rests on: hazards, diagnostics, assumptions, reason;
    the sizes that are safe, and the synchronisation that is not needed.

    The `file` is named where its procedure's name is not enough.
    """
    # A target that could not be loaded has no procedure to name.
    text = _headline(verdict, file) if verdict.proc else Text()
    for hazard, *alike in by_repair(verdict.hazards):
        text.append("\n").append(draw_hazard(hazard)).append(_draw_alike(alike))
    if verdict.note:
        text.append("\nnote: ", "cyan").append(_hanging(verdict.note)).append("\n")
    for remark in verdict.remarks:
        text.append("  note: ", "cyan").append(_hanging(remark)).append("\n")
    if verdict.condition is not None:
        word = "iff" if verdict.necessary else "if"
        text.append(f"\nsafe {word} {verdict.condition}\n", "bold")
    if verdict.diagnostics:
        text.append("\n" if verdict.proc else "").append(draw_diagnostics(verdict.diagnostics))
    if verdict.idle:
        text.append("\n").append(draw_diagnostics(verdict.idle, warning=True))
    if verdict.limitations:
        text.append("\nbut it cannot be compiled:\n").append(
            draw_diagnostics(verdict.limitations, warning=True)
        )
    if verdict.redundant is not None:
        text.append(_draw_redundant(verdict.redundant))
    return text


def _draw_redundant(found: Sequence[Redundancy]) -> Text:
    """Draws the statements that may be left out or weakened, one at a time, each with its line."""
    if not found:
        return Text("  no synchronisation statement can be left out or weakened\n")
    text = Text()
    if len(found) > 1:
        text.append(f"  each of these {len(found)} holds alone: apply one, then check again\n")
    for one in found:
        for span in one.spans:
            text.append(f"  {place(span)}: ", "bold")
            text.append("redundant\n" if one.kind == "delete" else "stronger than needed\n", "cyan")
            text.append(draw_span(span))
        if one.kind == "weaken":
            text.append("  enough: ", "green").append(f"{one.replacement}\n")
        elif len(one.spans) > 1:
            text.append("  these can be left out together\n", "green")
        if one.saves is not None:
            text.append(_savings(one.saves))
    return text


def _savings(lines: Sequence[str]) -> Text:
    """Draws the instructions that the emitted kernels lose."""
    if not lines:
        return Text("  no emitted instruction fewer\n", "dim")
    more = len(lines) - 1
    shown = f"{lines[0]} and {more} more line{'s' if more > 1 else ''}" if more else lines[0]
    return Text.assemble(("  saves: ", "green"), f"{shown}\n")


def _headline(verdict: Verdict, file: str) -> Text:
    of = f" of {shown_path(file)}" if file else ""
    text = Text.assemble((verdict.proc, "bold"), f"{of}: ")
    cost = _cost(verdict)
    match verdict.word:
        case "proved":
            text.append(_word(verdict), "bold green")
            assumed = f", assuming {', '.join(verdict.assumptions)}" if verdict.assumptions else ""
            text.append(f"{_sizes_text(verdict.sizes)}{assumed} ({cost})\n")
        case "refuted":
            # Without given sizes, each hazard names the ones at which it happens.
            at = _sizes_text(verdict.sizes) if verdict.sizes is not None else ""
            text.append("refuted", "bold red").append(f"{at} ({cost})\n")
        case "undecided" if not verdict.checked:
            text.append("not checked", "bold yellow").append(f": {verdict.reason}\n")
        case "undecided":
            text.append("undecided", "bold yellow").append(
                f"{_sizes_text(verdict.sizes)} ({cost})\n"
            )
            text.append("  reason: ").append(_hanging(verdict.reason)).append("\n")
        case "error":
            found = len(verdict.diagnostics)
            text.append("not checked", "bold red")
            text.append(f": {found} error{'s' if found != 1 else ''}\n")
        case _:
            assert_never(verdict.word)
    return text


def _sizes_text(sizes: Mapping[str, int] | None) -> str:
    if sizes is None:
        return " for all sizes"
    return f" at {sizes_text(sizes)}" if sizes else ""


def sizes_text(sizes: Mapping[str, int]) -> str:
    """`M=512, N=512`"""
    return ", ".join(f"{name}={value}" for name, value in sizes.items())


def _cost(verdict: Verdict) -> str:
    effort = f"{verdict.operations:,} operations" if verdict.operations else ""
    if verdict.proof is not None:
        effort = f"{len(verdict.proof.answered):,} obligations"
    if verdict.cached:
        time = f"{effort}, from cache" if effort else "from cache"
    else:
        time = f"{effort} in {verdict.seconds:.2f} s" if effort else f"{verdict.seconds:.2f} s"
    return f"{time}, policy {verdict.policy.value}"


def draw_hazard(hazard: Hazard) -> Text:
    """A refutation: the two statements that are not ordered, where, and what is missing."""
    first_role, second_role = roles_of(hazard)
    element = _element(hazard)
    where = [sizes_text(hazard.sizes)] if hazard.sizes else []
    where += [f"task {hazard.task}"] if hazard.task is not None else []
    text = Text.assemble(
        (f"hazard {hazard.code} {hazard.kind.value}", "bold red"),
        (f" on {element}" if element else "", "bold"),
        f" at {', '.join(where)}\n" if where else "\n",
    )
    if hazard.first is not None:
        text.append(_draw_site(hazard.first, first_role))
    text.append(_draw_site(hazard.second, second_role))
    text.append("  missing: ", "cyan").append(_hanging(hazard.message)).append("\n")
    if hazard.link:
        text.append("  chain: ", "cyan").append(_hanging(hazard.link)).append("\n")
    if hazard.help:
        text.append("  repair: ", "green").append(_hanging(hazard.help)).append("\n")
    if hazard.replayed:
        text.append("  replayed on the abstract machine at these sizes\n", "dim")
    return text


def by_repair(hazards: Iterable[Hazard]) -> list[list[Hazard]]:
    """The hazards, those together for which the same repair was tried: one finding."""
    found: dict[object, list[Hazard]] = {}
    for number, hazard in enumerate(hazards):
        key = hazard.help if hazard.help and hazard.replayed else number
        found.setdefault(key, []).append(hazard)
    return list(found.values())


def _draw_alike(alike: Sequence[Hazard]) -> Text:
    """Hazards of which the repair has been told, a line each."""
    if not alike:
        return Text()
    many = f"{len(alike)} more hazard{'s' if len(alike) > 1 else ''}"
    text = Text.assemble(("  the same repair is for ", "green"), f"{many}:\n")
    for hazard in alike:
        at = f" at {sizes_text(hazard.sizes)}" if hazard.sizes else ""
        sites = [site for site in (hazard.first, hazard.second) if site is not None]
        lines = list(dict.fromkeys(str(site.place.line) for site in sites))
        where = f"line{'s' if len(lines) > 1 else ''} {' and '.join(lines)}"
        text.append(f"    {hazard.kind.value} on {_element(hazard)}{at}: {where}\n")
    return text


def _element(hazard: Hazard) -> str:
    """`z[1, 2]`"""
    index = f"[{', '.join(map(str, hazard.index))}]" if hazard.index else ""
    return hazard.variable + index


def _draw_site(site: Occurrence, role: str) -> Text:
    text = Text(f"  {place(site.place)}: " if site.span.line else "  ", "bold")
    text = Text.assemble(text, (role, "cyan"), "\n")
    drawn = draw_span(site.place)
    text.append(drawn if drawn.plain else Text(f"        {site.text}\n"))
    facts = [f"{site.access_text} by {site.threads}".lstrip() if site.threads else site.access_text]
    if site.iteration:
        facts.append("at " + ", ".join(f"{name} = {value}" for name, value in site.iteration))
    told = ", ".join(filter(None, facts))
    return text.append(f"        {told}\n" if told else "")


def _hanging(message: str) -> Text:
    """A message, of which further lines stand under the first."""
    return Text(message.replace("\n", "\n    "), PROSE)


def draw_summary(verdicts: Sequence[Verdict]) -> Text:
    """Draws the number of procedures with each verdict, in a line."""
    words = Counter(_word(verdict) for verdict in verdicts)
    parts = [f"{count} {word}" for word, count in words.items()]
    return Text(f"{len(verdicts)} procedures: {', '.join(parts)}\n", "bold")


def _word(verdict: Verdict) -> str:
    """Returns a reader's word for the verdict: a procedure proved at given sizes only is `safe`."""
    return "safe" if verdict.word == "proved" and verdict.sizes is not None else verdict.word


def draw_code(code: str, entry: Code) -> Text:
    """One entry of `exogpu explain`."""
    text = Text.assemble((f"{code}: {entry.title}\n\n", "bold"), f"{fill(entry.explanation)}\n\n")
    return text.append("Example:\n\n").append(f"{indent(entry.example, '    ')}\n")


def draw_codes(codes: Mapping[str, Code]) -> Text:
    """All codes with their titles, a line each."""
    return Text("").join(
        Text.assemble((code, "bold"), f"  {entry.title}\n") for code, entry in sorted(codes.items())
    )
