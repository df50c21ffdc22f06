"""Generates pages of the site: codes, instructions, the sources that pages link to.

Pages link to files of the repository by paths that work where the repository is browsed
(`../examples/...`); in the site each such file is a page of its own.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from exogpu.diagnostics.codes import CODES
from exogpu.frontend.instructions import InstructionTemplate
from exogpu.isa import cuda, f8, i8, ldmatrix, mn_major, rows, sm80, sm90, some_rows

ROOT = Path(__file__).parent.parent
OUTSIDE = re.compile(r"\]\(\.\./([^)#\s]+)(#[^)]*)?\)")
"""A link from a page to a file of the repository that is no page."""
CATALOGUES = (cuda, sm80, ldmatrix, sm90, mn_major, f8, i8, rows, some_rows)
STAGES = {
    "P": "Reading: is the text in the language?",
    "T": "Types",
    "S": "Structure: does each statement stand where it may?",
    "C": "Collective analysis: do the threads fit the loops?",
    "D": "Distributed memory: whose is it?",
    "B": "Bounds and operands",
    "H": "Hazards",
    "G": "Lowering",
    "X": "Invocation",
    "K": "Kernels of Triton: is the kernel read exactly?",
}


def codes_page() -> str:
    """Every code with its meaning and an example, as `exogpu explain` has them."""
    lines = ["# Codes", "", "What `exogpu explain CODE` prints, of every code.", ""]
    for letter, stage in STAGES.items():
        lines += [f"## {stage}", ""]
        for code, entry in sorted(CODES.items()):
            if code[0] == letter:
                example = ["```text", *entry.example.splitlines(), "```"]
                title = f"### {code}: {entry.title}"
                lines += [title, "", " ".join(entry.explanation.split()), "", *example, ""]
    return "\n".join(lines)


def instructions() -> dict[str, list[InstructionTemplate]]:
    """The instructions of each catalogue, in the order of their definitions."""
    found: dict[str, list[InstructionTemplate]] = {}
    known: set[str] = set()
    for catalogue in CATALOGUES:
        here = [one for one in vars(catalogue).values() if isinstance(one, InstructionTemplate)]
        found[catalogue.__name__] = [one for one in here if one.name not in known]
        known |= {one.name for one in here}
    return found


def describe(instruction: InstructionTemplate) -> str:
    """The docstring of an instruction, each paragraph on one line."""
    text = inspect.cleandoc(ast.get_docstring(instruction.source.function) or "")
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def instruction_page(instruction: InstructionTemplate, catalogue: str) -> str:
    """One instruction: what it does, how it is imported, its parameters, its definition."""
    function = instruction.source.function
    first = min(function.lineno, *(one.lineno for one in function.decorator_list))
    lines = instruction.source.lines[first - 1 : function.end_lineno]
    constants = [
        f"`{name}`"
        + (f" (default `{value.value if hasattr(value, 'value') else value}`)" if given else "")
        for name in instruction.constant_names
        for given, value in [(name in instruction.defaults, instruction.defaults.get(name))]
    ]
    parameters = ", ".join(f"`{name}`" for name in instruction.parameter_names) or "none"
    return "\n".join(
        [
            f"# {instruction.name}",
            "",
            describe(instruction),
            "",
            f"    from {catalogue} import {instruction.name}",
            "",
            f"- **Parameters**: {parameters}.",
            f"- **Compile-time parameters**, by keyword: {', '.join(constants) or 'none'}.",
            "- **Signals a barrier**, by `>> z[...]`: "
            + (
                "it must."
                if instruction.barrier_required
                else "it may."
                if instruction.barrier
                else "no."
            ),
            "",
            "Its definition has its unit, operands, emitted text, preconditions and meaning:",
            "",
            "````python",
            *(line.rstrip("\n") for line in lines),
            "````",
            "",
        ]
    )


def instructions_page() -> str:
    """All instructions, each with its first sentence, which lead to their pages."""
    lines = ["# Instructions", "", "Each has a page with its parameters and its definition.", ""]
    for catalogue, members in instructions().items():
        if members:
            lines += [f"## {catalogue}", "", "| instruction | meaning |", "| --- | --- |"]
            for one in members:
                meaning = describe(one).split("\n\n")[0].replace("|", "\\|")
                lines.append(f"| [`{one.name}`](instructions/{one.name}.md) | {meaning} |")
            lines.append("")
    return "\n".join(lines)


def source_page(path: str) -> str:
    """A file of the repository, or what a folder has in it."""
    file = ROOT / path
    if file.is_dir():
        names = sorted(one.name for one in file.iterdir() if not one.name.startswith((".", "_")))
        return "\n".join([f"# {path}", "", *(f"- `{name}`" for name in names), ""])
    language = {".py": "python", ".cuh": "cuda", ".cu": "cuda"}.get(file.suffix, "text")
    return f"# {path}\n\n````{language}\n{file.read_text()}````\n"


def linked(markdown: str) -> list[str]:
    """The files outside of this folder that a page links to."""
    return [found[1].rstrip("/") for found in OUTSIDE.finditer(markdown)]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages."""
    pages = [Path(one.abs_src_path).read_text() for one in files.documentation_pages()]
    sources = {path for page in pages for path in linked(page)}
    made = {f"source/{path}.md": source_page(path) for path in sorted(sources)}
    for catalogue, members in instructions().items():
        for one in members:
            made[f"instructions/{one.name}.md"] = instruction_page(one, catalogue)
    made |= {"codes.md": codes_page(), "instructions.md": instructions_page()}
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Links to files of the repository go to their pages."""
    return OUTSIDE.sub(lambda found: f"](source/{found[1].rstrip('/')}.md)", markdown)
