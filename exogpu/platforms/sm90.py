"""The instructions of exogpu.isa.sm90, exogpu.isa.mn_major, exogpu.isa.f8 and exogpu.isa.rows."""

from exogpu.isa.f8 import *  # noqa: F403
from exogpu.isa.mn_major import *  # noqa: F403
from exogpu.isa.rows import *  # noqa: F403
from exogpu.isa.sm90 import *  # noqa: F403
