"""The instructions of exogpu.isa.sm80."""

from exogpu.isa.sm80 import *  # noqa: F403
