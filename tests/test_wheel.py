"""The wheel, in an environment that has its declared dependencies and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
SOURCES = ("exogpu", "symbolic", "codegen", "pyproject.toml", "README.md", "LICENSE")


def required(requirements: list[str]) -> Iterator[str]:
    """The distributions that requirements ask for here, and what those ask for."""
    for text in requirements:
        asked = Requirement(text)
        if asked.marker is None or asked.marker.evaluate({"extra": ""}):
            yield asked.name
            yield from required(distribution(asked.name).requires or [])


def copy_sources(folder: Path) -> None:
    """What the wheel is built from, and nothing else."""
    for name in SOURCES:
        made = folder / name
        made.parent.mkdir(exist_ok=True)
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, made, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, made)


def link(name: str, folder: Path) -> None:
    """Makes an installed distribution importable from another folder, and known there."""
    files = distribution(name).files
    assert files is not None
    for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
        target = Path(str(distribution(name).locate_file(top)))
        if target.exists() and not (folder / top).exists():
            (folder / top).symlink_to(target)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel, built from the sources alone."""
    folder = tmp_path_factory.mktemp("wheel")
    copy_sources(folder / "sources")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    built = subprocess.run(
        [*pip, "wheel", "--no-deps", "--wheel-dir", folder, folder / "sources"],
        capture_output=True,
        text=True,
    )
    if built.returncode and re.search("No matching distribution|Could not find", built.stderr):
        pytest.skip("no package index to get setuptools from")
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("exogpu-*.whl")
    environment = folder / "environment"
    venv.create(environment)
    python = environment / "bin" / "python"
    (site,) = environment.glob("lib/python*/site-packages")
    subprocess.run(
        [*pip, "--python", str(python), "install", "--no-deps", "--no-index", wheel], check=True
    )
    (metadata,) = site.glob("exogpu-*.dist-info/METADATA")
    declared = re.findall(r"^Requires-Dist: (.*)$", metadata.read_text(), re.M)
    for name in set(required(declared)):
        link(name, site)
    return environment / "bin"


def run(installed: Path, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command where nothing but the environment's programs is found."""
    return subprocess.run(
        [installed / command[0], *command[1:]],
        cwd=folder,
        env={"PATH": str(installed), "HOME": str(folder), "LANG": os.environ.get("LANG", "C")},
        capture_output=True,
        text=True,
    )


def test_demo_proves_a_kernel_and_writes_its_report(installed: Path, tmp_path: Path) -> None:
    shown = run(installed, tmp_path, "exogpu", "demo")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert re.search(r"^(\w+): proved for all sizes \(\d+ obligations", shown.stdout, re.M)
    (page,) = re.findall(r"its report opens in a browser: (.*)\n", shown.stdout)
    assert "proved" in (tmp_path / page).read_text()
    (again,) = re.findall(r"exogpu (recheck .*)\n", shown.stdout)
    confirmed = run(installed, tmp_path, "exogpu", *again.split())
    assert (confirmed.returncode, confirmed.stderr) == (0, "")
    assert ": confirmed (" in confirmed.stdout


def test_the_environment_has_no_more_than_was_asked_for(installed: Path, tmp_path: Path) -> None:
    """What the tests themselves need, and the clone's own exogpu, is not there."""
    where = "import exogpu, sys; print(exogpu.__file__)"
    found = run(installed, tmp_path, "python", "-c", where)
    assert str(installed.parent) in found.stdout
    for name in ("pytest", "hypothesis", "cvc5"):
        try:
            distribution(name)
        except PackageNotFoundError:
            continue
        assert run(installed, tmp_path, "python", "-c", f"import {name}").returncode == 1


def test_a_folder_that_cannot_be_written_is_told(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    shown = run(installed, tmp_path, "exogpu", "demo", "-o", "taken")
    assert shown.returncode == 2 and "X948" in shown.stderr and "Traceback" not in shown.stderr


def test_the_source_archive_makes_the_same_wheel(tmp_path: Path) -> None:
    """What is installed is all in the archive, with the licence and nothing of this machine."""
    copy_sources(tmp_path / "sources")
    make = "from setuptools import build_meta; build_meta.build_{}({!r})"

    def build(kind: str, source: Path, folder: str) -> Path:
        command = [sys.executable, "-c", make.format(kind, str(tmp_path / folder))]
        (tmp_path / folder).mkdir()
        built = subprocess.run(command, cwd=source, capture_output=True, text=True)
        assert built.returncode == 0, built.stderr
        (file,) = (tmp_path / folder).iterdir()
        return file

    archive = build("sdist", tmp_path / "sources", "archive")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert (unpacked / "LICENSE").exists() and (unpacked / "README.md").exists()
    names = []
    for source, folder in ((tmp_path / "sources", "one"), (unpacked, "two")):
        with zipfile.ZipFile(build("wheel", source, folder)) as wheel:
            names.append({*wheel.namelist()})
            texts = [wheel.read(name) for name in wheel.namelist()]
            assert not any(str(ROOT).encode() in text for text in texts)
    assert names[0] == names[1]
    for folder in ("exogpu/symbolic/", "exogpu/codegen/prelude/", "exogpu/report/templates/"):
        assert any(name.startswith(folder) for name in names[0]), folder
