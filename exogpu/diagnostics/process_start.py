"""Records the time at which this process began to read exogpu's files."""

from __future__ import annotations

from time import time
from typing import Final

STARTED: Final = time() - 1.0
"""In seconds since the epoch; with what the import of this module may have waited for."""
