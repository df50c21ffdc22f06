"""Names of files and functions: words of the field, and each file name once."""

from __future__ import annotations

import ast
import json
from collections import Counter
from pathlib import Path

from exogpu import interpreter, meaning

ROOT = Path(__file__).parent.parent
FUNCTIONS = ROOT / "tests" / "names_to_improve.json"
SHARED, SMALL, LONG = 15, 20, 12
"""At most so many file names used twice, files under 60 lines, files over 400."""

RIDDLES = frozenset(
    """
    about accessed added after again against alike allowed alone an and any apart applied around
    asked assigned at awaited back balanced become before begun being below beside between beyond
    both bound bounded broken built by called carried changed checked chosen closed coming common
    completing converging counted counting covered cut decided derived deriving differing distinct
    divided done drawn dropped during each eights either elsewhere empty ended ending enough every
    everything executing expected explaining extremes failed falling few first fits fixed folded
    following for forced found from given giving going gone granted guarded hearing heard held
    helped her here hers hidden hired his how in inner inside into it its judged judging just kept
    known landing larger last later left less listed loaded made making many matched me meant
    mentioned mine missing mixed more most moved moving my named needed new next none nothing now
    of off old on once one only opened opening or other others our out outer over overwritten owned
    owning packed packing pairing passed past placed printed proposing published put raised read
    reading reached refused refusing released remaking removed repeated repeating replaced required
    reserved resolved right running said same saying seen sent set several shared showing shown
    silent since single so solitary some soon standing started stated steady stopped stopping stuck
    such taken taking telling than that their them then there these they this those through tied
    together told touched toward tried trying tuned under understood unwritten until up upon used
    using wanted warming warned watching what when where which while who whole whose why widened
    with within without wording words written yet you
    """.split()  # noqa: SIM905
)
"""Participles, prepositions, pronouns and what else says nothing when it stands alone."""


def package_files() -> list[Path]:
    """Lists the modules of the package, without the files that begin a folder."""
    folders = [path for path in (ROOT / "exogpu").iterdir() if path.is_dir()]
    own = [path for path in folders if not path.is_symlink()]
    roots = [*own, ROOT / "symbolic", ROOT / "codegen"]
    files = [file for root in roots for file in root.rglob("*.py")]
    return sorted(
        file for file in (*files, *(ROOT / "exogpu").glob("*.py")) if not file.name.startswith("__")
    )


def riddles_of(file: Path) -> set[str]:
    """The functions and methods of a file whose whole name is one word of the list."""
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.strip("_") in RIDDLES and not node.name.endswith("_")
    }


def lines(file: Path) -> int:
    """Counts the lines of a file that are not blank."""
    return sum(bool(line.strip()) for line in file.read_text().splitlines())


def test_no_file_has_a_riddle_for_a_name() -> None:
    assert not [file for file in package_files() if file.stem in RIDDLES]


def test_file_names_are_used_once() -> None:
    counts = Counter(file.name for file in package_files())
    shared = sorted(name for name, count in counts.items() if count > 1)
    assert len(shared) <= SHARED, shared


def test_few_files_are_small_or_long() -> None:
    sizes = {str(file.relative_to(ROOT)): lines(file) for file in package_files()}
    small = {
        name
        for name in sizes
        if len((ROOT / name).read_text().splitlines()) < 60 and "/platforms/" not in name
    }
    assert len(small) <= SMALL, sorted(small)
    long = {name for name, size in sizes.items() if size > 400}
    assert len(long) <= LONG, sorted(long)


def test_riddles_of_functions_only_become_fewer() -> None:
    """The file lists what is there today; a new one fails, and so does one that is gone."""
    made = {
        str(file.relative_to(ROOT)): sorted(names)
        for file in package_files()
        if (names := riddles_of(file))
    }
    listed = json.loads(FUNCTIONS.read_text())
    new = {file: sorted({*names} - {*listed.get(file, ())}) for file, names in made.items()}
    gone = {file: sorted({*names} - {*made.get(file, ())}) for file, names in listed.items()}
    assert not {file: names for file, names in new.items() if names}, "name what it does"
    assert not {file: names for file, names in gone.items() if names}, "take them off the list"


def test_a_riddle_is_found(tmp_path: Path) -> None:
    file = tmp_path / "kept.py"
    file.write_text("def kept(): ...\ndef cached(): ...\nclass A:\n    def _of(self): ...\n")
    assert riddles_of(file) == {"kept", "_of"}


def imports_of_tests(text: str) -> set[str]:
    """Returns the test modules of which a text imports names."""
    froms = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom))
    return {node.module for node in froms if (node.module or "").split(".")[-1].startswith("test_")}


def test_no_test_imports_another() -> None:
    """It would be imported twice, and run where the other's fixtures are not."""
    files = sorted((ROOT / "tests").rglob("*.py"))
    assert not [file for file in files if imports_of_tests(file.read_text())]
    assert imports_of_tests("from tests.kernels.test_rows import near") == {
        "tests.kernels.test_rows"
    }


def test_the_first_name_of_the_interpreter_is_kept() -> None:
    assert all(getattr(meaning, name) is getattr(interpreter, name) for name in meaning.__all__)
