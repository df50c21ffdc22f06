"""The instructions of exogpu.isa.sm90 and exogpu.isa.rows."""

from exogpu.isa.rows import *  # noqa: F403
from exogpu.isa.sm90 import *  # noqa: F403
