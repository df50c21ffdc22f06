"""Certificates: obligations encoded from the AMIR, with ISL's chains as witnesses, for a solver.

Nothing here relies on a result of ISL being right.  ISL finds expressions (which iteration of
which statement orders two accesses, how often an Arrive has run); the formulas that a solver must
refute say what these expressions have to satisfy, and are made from the program alone.
"""
