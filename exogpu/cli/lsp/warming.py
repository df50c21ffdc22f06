"""Imports what every check needs: the worker reads it once, and its children have it."""

from __future__ import annotations

import exogpu.codegen.warned
import exogpu.isa.rows
import exogpu.platforms.sm80
import exogpu.platforms.sm90
import exogpu.report.obligations
import exogpu.schedule
import exogpu.symbolic.prove  # noqa: F401
