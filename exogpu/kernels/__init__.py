"""The kernels that ship."""
