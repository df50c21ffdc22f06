"""Compares what users see with a record: help, names, codes, verdicts, AMIR and emitted text.

    python tools/freeze.py --check                  all of it, or the parts named
    python tools/freeze.py --check help codes
    python tools/freeze.py --update                 write tools/freeze.json again
    python tools/freeze.py --show amir FILE.py      the entries of one program, to compare two trees

It uses the command line and public names alone, so that it holds over any move of modules.
`EXOGPU_JOBS` and the verdict cache are those of the environment.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tools" / "freeze.json"
KERNELS = "exogpu.kernels"
FORMS = (
    "examples/museum/fa_1344.py",
    "examples/tutorial/ring.py",
    "tests/cases/collective/barriers.py",
)
"""The targets whose SARIF and JUnit files are compared."""

Part = dict[str, Any]


SERVER = """
import contextlib, json, os, runpy, sys
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(open(os.devnull, "w")):
    sys.argv = ["exogpu", "explain", "H701"]
    runpy.run_module("exogpu", run_name="__main__")
for line in sys.stdin:
    output, arguments = json.loads(line)
    child = os.fork()
    if child == 0:
        written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(written, 1)
        os.dup2(os.open(output + ".err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv = ["exogpu", *arguments]
        runpy.run_module("exogpu", run_name="__main__")
        sys.exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Runs commands in forks of one process, so that exogpu is imported once."""


def environment() -> dict[str, str]:
    """Gives the environment of every command: this checkout, a plain terminal of 80 columns."""
    fixed = {"PYTHONPATH": str(ROOT), "COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}
    return {**os.environ, **fixed}


@functools.cache
def server() -> subprocess.Popen[str]:
    """Starts the process that runs the commands."""
    return subprocess.Popen(
        [sys.executable, "-c", SERVER],
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def command(*arguments: str) -> str:
    """Runs one command of exogpu and gives its output; raises if the command itself breaks."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output"
        process = server()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps([str(output), arguments]) + "\n")
        process.stdin.flush()
        status = process.stdout.readline().strip()
        if status not in ("0", "1", "2", "3"):
            errors = Path(f"{output}.err")
            said = errors.read_text() if errors.exists() else ""
            raise SystemExit(f"exogpu {' '.join(arguments)} ended with {status}:\n{said}")
        return output.read_text()


def digest(value: object) -> str:
    """Hashes a text, or JSON with its keys in order."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def neutral(value: object, shipped: bool = False) -> object:
    """Removes times and absolute paths, and the lines of files that belong to exogpu."""
    match value:
        case dict():
            file = str(value.get("file", ""))
            own = shipped or file.startswith(f"{ROOT}/exogpu/")
            dropped = {"seconds", "cached", *(("file", "line", "column") if own else ())}
            return {key: neutral(item, own) for key, item in value.items() if key not in dropped}
        case list():
            return [neutral(item, shipped) for item in value]
        case str():
            text = value.replace(f"{ROOT}/", "")
            text = re.sub(r"exogpu/(isa|kernels)/\w+\.py(:\d+)*", r"exogpu/\1", text)
            return re.sub(r"\blines? \d+( and \d+)?", "line", text) if shipped else text
        case _:
            return value


def programs() -> tuple[str, ...]:
    """Names the files of programs: museum, tutorial and cases."""
    folders = ("examples/museum", "examples/tutorial", "tests/cases")
    return tuple(
        str(file.relative_to(ROOT))
        for folder in folders
        for file in sorted((ROOT / folder).rglob("*.py"))
    )


def help_texts() -> Part:
    """Hashes the help of exogpu and of each of its commands."""
    overview = command("--help")
    commands = re.findall(r"^  ([a-z]+)  ", overview.partition("Commands:")[2], re.MULTILINE)
    return {"": digest(overview)} | {
        name: digest(command(name, "--help")) for name in sorted(commands)
    }


def public_names() -> Part:
    """Lists the public names of exogpu, its primitives of scheduling and its kernels."""
    code = (
        "import json, exogpu, exogpu.kernels as kernels, exogpu.schedule as schedule\n"
        "print(json.dumps([sorted(m.__all__) for m in (exogpu, schedule, kernels)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment(),
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(zip(("exogpu", "schedule", "kernels"), json.loads(done.stdout), strict=True))


def messages_of_codes() -> Part:
    """Hashes what `exogpu explain` says of the codes of each letter."""
    codes = re.findall(r"^([A-Z]\d{3})  ", command("explain"), re.MULTILINE)
    letters = sorted({code[0] for code in codes})
    return {letter: codes_of(letter, codes) for letter in letters}


def codes_of(letter: str, codes: list[str]) -> str:
    """Hashes the explanations of the codes that begin with one letter."""
    chosen = sorted(code for code in codes if code.startswith(letter))
    return digest({code: command("explain", code) for code in chosen})


def numbered(entries: Iterator[tuple[str, str]]) -> Part:
    """Tells entries of one name apart by a number."""
    result: Part = {}
    for name, value in entries:
        key, number = name, 2
        while key in result:
            key, number = f"{name}-{number}", number + 1
        result[key] = value
    return result


def _answers(text: str) -> list[dict[str, Any]]:
    """Reads what --json prints; a file that cannot be read at all may print nothing."""
    read = json.loads(text) if text.strip() else []
    return read if isinstance(read, list) else [read]


def verdicts_of(target: str) -> Part:
    """Hashes the verdicts of one target, a procedure at a time."""
    shipped = target == KERNELS
    answers = _answers(command("check", target, "--json"))
    return numbered(
        (f"{answer.get('proc')} {answer.get('verdict')}", digest(neutral(answer, shipped)))
        for answer in answers
    )


def amir_of(target: str) -> Part:
    """Hashes the abstract machine programs of one target."""
    shipped = target == KERNELS
    answers = _answers(command("amir", target, "--json"))
    return numbered(
        (str(answer.get("name")), digest(neutral(answer, shipped))) for answer in answers
    )


def emitted_of(target: str) -> Part:
    """Hashes the files that `exogpu compile --unchecked` writes for one target."""
    with tempfile.TemporaryDirectory() as folder:
        printed = command("compile", target, "--unchecked", "-o", folder)
        files = {
            str(file.relative_to(folder)): digest(
                re.sub(r"from \w+\.py;", "from a file;", file.read_text()).replace(f"{ROOT}/", "")
            )
            for file in sorted(Path(folder).rglob("*"))
            if file.suffix in (".cu", ".h", ".json")
        }
        said = re.sub(r"exogpu/(isa|kernels)/\w+\.py(:\d+)*", r"exogpu/\1", printed)
        return {"": digest(said.replace(folder, "").replace(f"{ROOT}/", "")), **files}


def forms() -> Part:
    """Hashes SARIF and JUnit of three targets, without times."""
    result: Part = {}
    with tempfile.TemporaryDirectory() as folder:
        sarif, junit = Path(folder) / "f.sarif", Path(folder) / "f.xml"
        for target in FORMS:
            sarif.write_text("null")
            junit.write_text("")
            command("check", target, "--sarif", str(sarif), "--junit", str(junit))
            text = re.sub(r'time="[\d.]+"', "", junit.read_text()).replace(f"{ROOT}/", "")
            text = re.sub(r"[\d.]+ s\b|from cache", "", text)
            result[f"{target} sarif"] = digest(neutral(json.loads(sarif.read_text())))
            result[f"{target} junit"] = digest(text)
    return result


def each(of: Callable[[str], Part], targets: tuple[str, ...]) -> Part:
    """Makes a part: one digest a program, and one an entry of the shipped kernels."""
    return {target: of(target) if target == KERNELS else digest(of(target)) for target in targets}


OF_A_PROGRAM: dict[str, Callable[[str], Part]] = {
    "amir": amir_of,
    "emitted": emitted_of,
    "verdicts": verdicts_of,
}
"""The parts that are made a program at a time."""

PARTS: dict[str, Callable[[], Part]] = {
    "help": help_texts,
    "names": public_names,
    "codes": messages_of_codes,
    "forms": forms,
    "amir": lambda: each(amir_of, (*programs(), KERNELS)),
    "emitted": lambda: each(emitted_of, (*programs(), KERNELS)),
    "verdicts": lambda: each(verdicts_of, programs()),
    "kernels": lambda: verdicts_of(KERNELS),
}
"""Each part and how it is made; the last proves all shipped kernels, which takes minutes."""


def differences(before: object, after: object, path: str = "") -> Iterator[str]:
    """Names the places where two records differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from differences(before.get(key), after.get(key), f"{path} {key}".strip())
    elif before != after:
        kind = "is new" if before is None else "is gone" if after is None else "differs"
        yield f"{path}: {kind}"


def main() -> int:
    """Checks or writes the record; 1 if it differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the record")
    parser.add_argument("--update", action="store_true", help="write the record")
    parser.add_argument("--show", nargs=2, metavar=("PART", "FILE"), help="print one program's")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    options = parser.parse_args()
    if options.show:
        print(json.dumps(OF_A_PROGRAM[options.show[0]](options.show[1]), indent=1))
        return 0
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    found: list[str] = []
    for name in options.parts or PARTS:
        made = PARTS[name]()
        changes = [*differences(record.get(name), made, name)]
        print(f"{name}: {'same' if not changes else f'{len(changes)} differences'}", flush=True)
        for change in changes[:20]:
            print(f"  {change}")
        found += changes
        if options.update:
            record[name] = made
            RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    return 0 if options.update or not found else 1


if __name__ == "__main__":
    sys.exit(main())
