"""The repository's own rules: what is packaged, who imports what, how long files are."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAPPED = {"exogpu.symbolic": "symbolic", "exogpu.codegen": "codegen"}
LONGEST = 450
"""Lines that are not blank; a file of over 400 is about to have more than one idea."""


def python_files(*folders: str) -> list[Path]:
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def sources() -> list[Path]:
    """Every source file once: the two links inside exogpu/ are not followed."""
    return [
        file
        for file in python_files("exogpu", "symbolic", "codegen")
        if not any(parent.is_symlink() for parent in file.parents)
    ]


def imports(file: Path) -> set[str]:
    """First components of the absolute imports of a file, and of exogpu's, two components."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert node.module is not None
            found.add(node.module)
    return {module.split(".")[0] for module in found}


def test_every_package_of_the_tree_is_installed():
    """Forgetting one in `packages` goes unnoticed until somebody installs the project."""
    tree = {
        ".".join(file.parent.relative_to(ROOT).parts)
        for file in sources()
        if file.parent.relative_to(ROOT).parts[0] == "exogpu"
    }
    for package, folder in MAPPED.items():
        below = {file.parent.relative_to(ROOT / folder) for file in python_files(folder)}
        tree |= {".".join((package, *path.parts)) for path in below}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == tree


def test_every_package_has_an_init():
    """Without one, a folder is a namespace that type checkers and installers treat differently."""
    for file in sources():
        assert (file.parent / "__init__.py").exists(), file.parent


def test_mapped_packages_are_reachable_in_the_tree():
    assert PROJECT["tool"]["setuptools"]["package-dir"] == MAPPED
    for package, folder in MAPPED.items():
        link = ROOT / package.replace(".", "/")
        assert link.is_symlink()
        assert link.resolve() == ROOT / folder


def test_only_the_facades_import_the_solvers():
    facades = ROOT / "exogpu" / "solvers"
    for file in sources():
        assert file.parent == facades or not imports(file) & {"islpy", "z3"}, file


def test_nobody_imports_the_mapped_folders_by_their_bare_names():
    """`symbolic` is another project's name on PyPI."""
    for file in [*sources(), *python_files("tests", "benchmarks", "examples")]:
        assert not imports(file) & {"symbolic", "codegen"}, file


def test_prover_and_code_generator_do_not_import_each_other():
    """So that neither copies the other's mistake."""
    assert not any("exogpu.codegen" in file.read_text() for file in python_files("symbolic"))
    assert not any("exogpu.symbolic" in file.read_text() for file in python_files("codegen"))


def test_files_are_short():
    long = {
        str(file.relative_to(ROOT)): lines
        for file in sources()
        if (lines := sum(bool(line.strip()) for line in file.read_text().splitlines())) > LONGEST
    }
    assert not long
