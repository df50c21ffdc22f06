"""Compiled procedures run on a GPU against what they mean, `p.run`.

`packed` holds all that a run needs, so that it needs neither the solvers nor a compiler; `device`
runs one program, `pool` many of them under a watchdog; `instructions` makes programs that show
whether an instruction's text does what its body says.
"""
