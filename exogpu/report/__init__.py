"""Proof reports: what a verdict says of a kernel and why, as one offline page and as Markdown."""
