"""Emitted kernels on the CPU: every thread a fiber, every copy and product as late as it may be.

A GPU runs most kernels in one order, on every run; here threads take turns at random, and what is
asynchronous happens when it must at the latest.  What is missing in emitted synchronisation shows
as a wrong value, a hang, or an access of what is over.  Proxies and weak memory are not modelled:
those are `exogpu.codegen.claims`' part.
"""
