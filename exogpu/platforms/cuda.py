"""The instructions of exogpu.isa.cuda."""

from exogpu.isa.cuda import *  # noqa: F403
