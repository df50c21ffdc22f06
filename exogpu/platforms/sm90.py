"""The instructions of exogpu.isa: sm90, mn_major, f8, i8, rows and some_rows."""

from exogpu.isa.f8 import *  # noqa: F403
from exogpu.isa.i8 import *  # noqa: F403
from exogpu.isa.mn_major import *  # noqa: F403
from exogpu.isa.rows import *  # noqa: F403
from exogpu.isa.sm90 import *  # noqa: F403
from exogpu.isa.some_rows import *  # noqa: F403
