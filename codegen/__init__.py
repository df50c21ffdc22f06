"""CUDA for Hopper."""
