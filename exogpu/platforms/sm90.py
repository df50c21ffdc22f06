"""The instructions of exogpu.isa.sm90."""

from exogpu.isa.sm90 import *  # noqa: F403
