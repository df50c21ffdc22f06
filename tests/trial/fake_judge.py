"""`run_one` in a worker process whose GPU adds one, or does what the file's name says."""

from __future__ import annotations

import time
from pathlib import Path

from exogpu.gpu_trial import pool
from exogpu.gpu_trial.pool import Result
from tests.trial import fake_gpu


def run_one(case: str) -> Result:
    gpu = fake_gpu.Gpu(fake_gpu.right)
    name = Path(case).stem
    if name.endswith("2"):
        gpu = fake_gpu.Gpu(lambda x, y: None)
    if name.endswith("3"):
        gpu = fake_gpu.Gpu(lambda x, y: time.sleep(60))
    if name.endswith("4"):
        gpu = fake_gpu.Gpu(lambda x, y: setattr(gpu, "broken", True))
    fake_gpu.install(gpu)
    return pool.run_one(case)
