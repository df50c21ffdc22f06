"""Answers of the tool, as data: spans, diagnostics, hazards, verdicts, proofs."""
