"""Policies: which tables and rules hold."""

from __future__ import annotations

from enum import Enum

from exogpu.result.errors import NOWHERE, Diagnostic, ExoGpuError


class Policy(Enum):
    """The tables and rules in force: those that follow PTX (decision `policies`), or the paper's
    figures."""

    PTX = "ptx"
    PAPER = "paper"
    STRICT = "ptx"

    @classmethod
    def _missing_(cls, value: object) -> Policy | None:
        """`strict` is the name that `ptx` had."""
        return cls.PTX if value == "strict" else None

    @classmethod
    def of(cls, policy: Policy | str) -> Policy:
        """The policy itself, or the one of this name.  Raises ExoGpuError where there is none."""
        known = {name.lower(): member for name, member in cls.__members__.items()}
        found = known.get(policy) if isinstance(policy, str) else policy
        if not isinstance(found, cls):
            names = " or ".join(repr(name) for name in known)
            message = f"{policy!r} is no policy"
            raise ExoGpuError([Diagnostic("X906", message, NOWHERE, f"give {names}")])
        return found
