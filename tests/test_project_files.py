"""The files around the project agree with each other: versions, CI, how to report, how to cite."""

from __future__ import annotations

import re
import tomllib

from tests.pages import DOCS, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def text(path: str) -> str:
    return (ROOT / path).read_text()


def test_the_version_is_one_everywhere() -> None:
    version = PROJECT["version"]
    cited = re.findall(r"^version: (\S+)$", text("CITATION.cff"), re.M)
    headings = re.findall(r"^## (\S+)$", (DOCS / "changelog.md").read_text(), re.M)
    assert cited == [version] and headings[:2] == ["Unreleased", version]
    assert f"| maturity | {version}:" in text("README.md")


def test_what_the_readme_says_of_python_and_the_licence_is_declared() -> None:
    least = PROJECT["requires-python"].removeprefix(">=")
    assert f"| Python | {least} or newer |" in text("README.md")
    assert f"| licence | {PROJECT['license']} |" in text("README.md")
    assert f"license: {PROJECT['license']}\n" in text("CITATION.cff")
    assert f'python-version: "{least}"' in text(".github/workflows/ci.yml")


def test_the_workflow_runs_what_ci_runs() -> None:
    runs = re.findall(r"- run: (\S+)$", text(".github/workflows/ci.yml"), re.M)
    assert runs == [".ci/run"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100


def test_the_paper_is_cited_as_the_decisions_name_it() -> None:
    (title,) = re.findall(r'^  title: "(.*)"$', text("CITATION.cff"), re.M)
    page = " ".join((DOCS / "decisions.md").read_text().split())
    assert title in page
    for name in re.findall(r"^      family-names: (.*)$", text("CITATION.cff"), re.M):
        assert name in page


def test_a_report_asks_for_what_is_needed() -> None:
    form = text(".github/ISSUE_TEMPLATE/bug.yml")
    asked = set(re.findall(r"^    id: (\w+)$", form, re.M))
    assert asked >= {"kernel", "command", "expected", "version"}
    assert form.count("required: true") == len(asked)


def test_the_security_policy_says_that_checking_runs_python() -> None:
    assert "**Checking a file runs it.**" in text("SECURITY.md")


def test_the_changelog_can_be_read() -> None:
    page = (DOCS / "changelog.md").read_text()
    unreleased, released = page.split("\n## ")[1:3]
    assert len(unreleased.split()) <= 900 and len(released.split()) <= 1200
