"""Imports what every check needs: the worker reads it once, and its children have it."""

from __future__ import annotations

import exogpu.codegen.compiled_kernel
import exogpu.isa.rows
import exogpu.platforms.sm80
import exogpu.platforms.sm90
import exogpu.report.obligation_rows
import exogpu.schedule
import exogpu.symbolic.prove  # noqa: F401
