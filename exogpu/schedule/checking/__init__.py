"""Checks that a rewriting keeps what is computed, for all sizes."""
