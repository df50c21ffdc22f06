"""What the tool answers, as data: spans, diagnostics, hazards, verdicts, proofs."""
