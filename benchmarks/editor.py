"""CPU seconds of the language server for an edit of a GEMM: `python benchmarks/editor.py [EDITS]`.

Of the server, its worker and all of its children: a comment at the end (the verdict is in the
cache), a line above (the procedure moves: it is proved anew a second later, for what is said of
its places alone), a change of the kernel (it is proved anew at once).
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.lsp_client import Client

GEMM = Path(__file__).parent.parent / "exogpu" / "kernels" / "gemm_sm90.py"


def seconds(pid: int) -> float:
    """CPU time of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """The processes that a process has made."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


def spent(pid: int) -> float:
    """CPU time of a process and all below it."""
    try:
        return seconds(pid) + sum(map(spent, children(pid)))
    except OSError:  # it has ended meanwhile
        return 0.0


def measured(client: Client, edits: int, text: Callable[[int], str]) -> float:
    """CPU seconds of an edit, until all is told of it."""
    before = spent(client.process.pid)
    for number in range(edits):
        client.change("gemm.py", text(number))
        assert client.found("gemm.py") == []
        settle(client)
    return (spent(client.process.pid) - before) / edits


def settle(client: Client) -> None:
    """Waits until nothing more is told: of a place without anything only then."""
    assert client.hover("gemm.py", "import") == ""


def main() -> None:
    """Prints a line a kind of edit."""
    edits = int(sys.argv[1]) if sys.argv[1:] else 20
    whole = GEMM.read_text()
    text = whole.partition("CLUSTERS =")[0] + "kernel = make_gemm(1, 1, 128, 64)\n"
    with tempfile.TemporaryDirectory() as folder:
        client = Client(Path(folder))
        client.open("gemm.py", text)
        assert client.found("gemm.py") == []
        settle(client)
        kinds: dict[str, Callable[[int], str]] = {
            "a comment below": lambda n: f"{text}# {n}\n",
            "a line above": lambda n: "# a line\n" * (n + 1) + text,
            "another kernel": lambda n: text.replace("128, 64)", f"128, {16 * (n % 14 + 1)})"),
        }
        for kind, edited in kinds.items():
            print(f"{kind}: {1000 * measured(client, edits, edited):.0f} ms of CPU an edit")
        client.end()
        client.kill()


if __name__ == "__main__":
    main()
