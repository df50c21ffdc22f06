"""The first name of `exogpu.interpreter`: programs that import it need no change."""

from exogpu.interpreter import round_bf16, round_f8, round_tf32, run

__all__ = ["round_bf16", "round_f8", "round_tf32", "run"]
