"""The instructions of exogpu.isa.sm80 and exogpu.isa.ldmatrix."""

from exogpu.isa.ldmatrix import *  # noqa: F403
from exogpu.isa.sm80 import *  # noqa: F403
