"""Random programs in source form of what the language has besides rings: a file a feature.

A program is one kernel, or some launches; its tiles come into shared memory by one of `sources.py`,
are handed over by one of `schemes.py`, and one or two features use them.  `generate.py` has the
list of shapes, to which a feature adds its entry, and `mistakes.py` breaks half of the programs.
"""
