"""Translation validation: whether PTX performs what the program of the abstract machine says."""
