"""The solvers behind typed facades: the only imports of islpy and of z3."""
