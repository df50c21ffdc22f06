"""What the site has beside the pages of this folder: all codes, and the sources that pages link to.

Pages link to files of the repository by paths that work where the repository is browsed
(`../examples/...`); in the site each such file is a page of its own.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from exogpu.result.codes import CODES

ROOT = Path(__file__).parent.parent
OUTSIDE = re.compile(r"\]\(\.\./([^)#\s]+)(#[^)]*)?\)")
"""A link from a page to a file of the repository that is no page."""
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
    for name, content in {"codes.md": codes_page(), **made}.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Links to files of the repository go to their pages."""
    return OUTSIDE.sub(lambda found: f"](source/{found[1].rstrip('/')}.md)", markdown)
