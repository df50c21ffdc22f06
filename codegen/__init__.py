"""CUDA C++ from checked procedures: text, compilation, and launching from Python."""
