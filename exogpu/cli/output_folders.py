"""Places for the results of a target's procedures: each has its own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from exogpu.report.page import folder_name


class Places:
    """Names of folders, in the order of a target's procedures; two of one name stay apart."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    def name(self, procedure: str) -> str:
        """`gemm`, and `gemm-2` for the second procedure of that name."""
        name = folder_name(procedure)
        self._taken[name] += 1
        count = self._taken[name]
        return name if count == 1 else f"{name}-{count}"

    def shared_folder(self, procedure: str, folder: Path) -> Path:
        """The folder itself, which procedures of different names share, or one in it."""
        name = self.name(procedure)
        return folder if name == folder_name(procedure) else folder / name
