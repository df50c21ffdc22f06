"""CPU seconds of the language server for an edit of a GEMM: `python benchmarks/editor.py [EDITS]`.

Of the server, its worker and all of its children: a comment at the end (the verdict is in the
cache), a line above (the procedure moves), a change of the kernel (it is proved anew).
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


def spent(client: Client) -> float:
    """CPU time of the server and its worker."""
    pids = [client.process.pid, *children(client.process.pid)]
    return sum(map(seconds, pids))


def measured(client: Client, edits: int, text: Callable[[int], str]) -> float:
    """CPU seconds of an edit, until all is told of it."""
    before = spent(client)
    for number in range(edits):
        client.change("gemm.py", text(number))
        assert client.found("gemm.py") == []
        client.hover("gemm.py", "nowhere" if "nowhere" in client.texts["gemm.py"] else "return")
    return (spent(client) - before) / edits


def main() -> None:
    """Prints a line a kind of edit."""
    edits = int(sys.argv[1]) if sys.argv[1:] else 20
    whole = GEMM.read_text()
    text = whole.partition("CLUSTERS =")[0] + "kernel = make_gemm(1, 1, 128, 64)\n"
    with tempfile.TemporaryDirectory() as folder:
        client = Client(Path(folder))
        client.open("gemm.py", text)
        assert client.found("gemm.py") == []
        client.hover("gemm.py", "return")
        kinds: dict[str, Callable[[int], str]] = {
            "a comment below": lambda n: f"{text}# {n}\n",
            "a line above": lambda n: "# a line\n" * (n + 1) + text,
            "another kernel": lambda n: text.replace("RING: int = 4", f"RING: int = {n % 40 + 2}"),
        }
        for kind, edited in kinds.items():
            print(f"{kind}: {1000 * measured(client, edits, edited):.0f} ms of CPU an edit")
        client.end()
        client.kill()


if __name__ == "__main__":
    main()
