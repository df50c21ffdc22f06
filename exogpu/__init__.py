"""exogpu: GPU kernels whose parallel execution is checked against their sequential reading."""
