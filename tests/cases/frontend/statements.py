"""Statements that are not of the language, and declarations that are wrong."""

from __future__ import annotations

from exogpu import *

TWO = 2
FLAG = False


@proc
def forms(M: size, x: f32[M]):
    assert M % 2 == 0
    y: f32[M] = 3  # expect: P115
    y[0] = 1
    z: f33[M]  # expect: P102
    w: M[3]  # expect: T211
    v: f32[M] @ cuda_warp  # expect: T212
    u: f32[-1]  # expect: T213
    while M:  # expect: P114
        pass
    assert M > 2  # expect: P113
    del x  # expect: S307
    free(x)  # expect: S307
    x  # expect: P119
    print(x)  # expect: P111
    undefined = 3.0  # expect: P102
    three = TWO + 1
    x[three] = 1.0
    three = 4  # expect: P102
    for i in range(TWO):
        x[i] = i
    for i in range(M):  # expect: P117
        x[i] = 0
    for i in seq(0):  # expect: P120
        x[i] = 0
    for i in TWO:  # expect: P117
        x[i] = 0
    if FLAG:
        x[0] = nothing_reads_this
    with open("f"):  # expect: P118
        pass
    "a string is a comment"


@proc
def parameters(M: size, a, z: barrier @ CudaMbarrier, s: f32 @ CudaSmemLinear, b: f32[K]):
    pass  # the header draws: P127 P128 S317 P102


@proc
def starred(M: size, *rest):  # expect: P126
    pass
