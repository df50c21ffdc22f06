"""The proof for all sizes."""
