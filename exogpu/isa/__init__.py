"""Instruction catalogues: one screen an instruction."""
