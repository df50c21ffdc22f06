"""From a program and a witness to obligations, as SMT-LIB scripts for a solver.

Nothing here reaches ISL.  A witness says which iteration of which statement orders two accesses and
how often an Arrive has run; the formulas that a solver must refute say what these expressions have
to satisfy, and are made from the program alone.
"""
