"""Kernels that people already have: TTGIR of Triton, Gluon and TLX, read as procedures."""
