"""Certificates of steps: what ISL finds about a rewriting, written as a witness."""
