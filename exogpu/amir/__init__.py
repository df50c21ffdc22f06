"""Abstract machine IR: what a procedure means to the machine and to the proof (paper, AMIR)."""
