"""From a program to its verdict: proofs, refutations, limits."""
