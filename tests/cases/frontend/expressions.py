"""Control, boolean and data expressions.  Each line ends in the code that it draws, if any."""

from __future__ import annotations

from exogpu import *


@proc
def control_expressions(M: size, N: size, i: index, x: f32[M, N]):
    for j in seq(0, M):
        x[j, 0] = 0
        x[j * j, 0] = 0  # expect: T204
        x[M // j, 0] = 0  # expect: P104
        x[j / 0, 0] = 0  # expect: T203
        x[j % -1, 0] = 0  # expect: T203
        x[(2 * j + 1) / 2 % 4, -j] = 0
        x[unknown, 0] = 0  # expect: P102
        x[x, 0] = 0  # expect: T201
        x[1.5, 0] = 0  # expect: T202
        x[j, 0] = j  # expect: T201
        x[j] = 0  # expect: T205
        x[j, 0:1] = 0  # expect: T207
        x[j, 0:N:2] = 0  # expect: P108
        x[j if M else 0, 0] = 0  # expect: T204
        if 0 <= j < N and not (j == 3 or j != M):
            x[j, 0] = 1
        if x[0, 0] > 0:  # expect: T201
            x[j, 0] = 1
        if j in (1, 2):  # expect: P105
            x[j, 0] = 1
        if j:  # expect: P106
            x[j, 0] = 1


@proc
def data_expressions(x: f32[4], h: f16[4], k: i32[4]):
    x[0] = -x[1] * 2 + min(x[2], 3.0) / select(x[0], x[1], x[2], x[3])
    x[0] = relu(exp(sqrt(max(x[1], h[0]))))
    x[0] = k[0]  # expect: T210
    x[0] = x[1] + k[1]  # expect: T210
    x[0] = min(x[1])  # expect: T209
    x[0] = x[1] % 2  # expect: P109
    x[0] = "text"  # expect: T208
    x[0] *= 2  # expect: P112
    x[0] += 2
