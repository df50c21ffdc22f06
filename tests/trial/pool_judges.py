"""A judge for worker processes: a function of a module, as they need it."""

from __future__ import annotations

import os
import time

from exogpu.gpu_trial.pool import Spent


def judge(case: str) -> dict[str, object]:
    match case:
        case "hang":
            time.sleep(60)
        case "spent":
            raise Spent({"wrong": ["context lost"], "pid": os.getpid()})
        case "die":
            os._exit(9)
    return {"double": 2 * int(case), "pid": os.getpid()}
