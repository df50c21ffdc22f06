"""docs/editor.md is true: its example, its options, the files that it names."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path

from exogpu import mypy_plugin
from exogpu.cli.loader import load
from exogpu.cli.lsp import server
from exogpu.cli.lsp.document_checks import Job

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "editor.md").read_text()


def test_the_example_is_proved(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "fill.py").write_text(example)
    (unit,) = load(str(tmp_path / "fill.py"))
    assert unit.procedure is not None and unit.procedure.check()


def test_the_options_are_those_of_the_server() -> None:
    shown = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", PAGE, re.MULTILINE))
    job = Job("/file.py", {})
    assert float(shown.pop("delay")) == server.DELAY
    assert float(shown.pop("patience")) == server.PATIENCE
    assert {name: eval(value.strip("`")) for name, value in shown.items()} == {
        name: getattr(job, name) for name in inspect.signature(Job).parameters if name in shown
    }
    assert {*shown} == {"policy", "loading", "checking"}


def test_what_it_names_is_there() -> None:
    for path in ("editors/vscode", "examples/ci/exogpu.yml", "benchmarks/editor.py"):
        assert path in PAGE and (ROOT / path).exists()
    (toml,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert tomllib.loads(toml)["tool"]["mypy"]["plugins"] == [mypy_plugin.__name__]
