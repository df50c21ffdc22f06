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
        x[min(j, M - 1), max(0, -j)] = 0
        x[min(j), 0] = 0  # expect: T204
        w = x[min(j, 3), :]  # expect: T204
        y: f32[min(j, 3)]  # expect: T204
        for k in seq(0, max(j, 3)):  # expect: T204
            x[k, 0] = 0
        for k in seq(0, min(j, 3) + 1):  # expect: T204
            x[k, 0] = 0
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
    x[0] = x[1] % 2  # expect: T210
    x[0] = x[1] ** 2  # expect: P109
    x[0] = "text"  # expect: T208
    x[0] *= 2  # expect: P112
    x[0] += 2


@proc
def functions_of_integers(x: f32[4], h: bf16[4], k: i32[4], u: ui32[4], w: i64[4], d: f64[4]):
    x[0] = f32(k[0]) + f32(u[0] >> 3 & 15)
    k[0] = i32(x[0], rm) + i32(x[1]) + i32(w[0] // 3 % 5) + ~k[1]
    u[0] = bits(x[0]) ^ ui32(bits(h[0])) << 16 | lop3(u[0], u[1], 7, 0xE8)
    h[0] = from_bits(k[0], bf16)
    x[0] = bf16(k[0])
    k[0] = x[0]  # expect: T210
    k[0] = k[1] & x[0]  # expect: T210
    x[0] = sqrt(k[0])  # expect: T210
    x[0] = fast_exp(d[0])  # expect: T210
    u[0] = bits(k[0])  # expect: T210
    x[0] = from_bits(x[1], f32)  # expect: T210
    k[0] = mul_hi(w[0], w[1])  # expect: T210
    k[0] = i32(x[0], ra)  # expect: T209
    k[0] = i32(k[1], rz)  # expect: T210
    x[0] = f32(d[0], rz)  # expect: T209
    x[0] = from_bits(k[0])  # expect: T209
    k[0] = lop3(k[0], k[1], k[2], 256)  # expect: T208
    k[0] = lop3(k[0], k[1], k[2], k[3])  # expect: T208
    k[0] = k[1] // 0  # expect: T247
    k[0] = k[1] % 0  # expect: T247
    x[0] = x[1] << 2  # expect: T210
    x[0] = x[1] + ~3 + (1 << 4)
    x[0] = popcount(2.5)  # expect: T210


@proc
def constants_fit(n: i32[4], b: i8[4], u: ui64[4], h: f16[4], x: f32[4], y: f64[4]):
    n[0] = n[0] + 5000000000  # expect: T246
    n[0] = 2147483648  # expect: T246
    n[0] = -2147483648
    n[0] = 2147483647 + 1  # expect: T246
    n[0] = n[0] / 0  # expect: T247
    n[0] = n[0] * 0.5  # expect: T210
    n[0] = 2.0  # expect: T210
    n[0] = select(0.5, 1, n[0], n[1])  # expect: T210
    n[0] = sqrt(n[1])  # expect: T210
    n[0] = exp(2)  # expect: T210
    n[0] = 7 / 3
    n[0] = 1 / 0  # expect: T247
    b[0] = 128  # expect: T246
    b[0] = b[0] + 128
    b[0] += 128
    b[0] = 100 + 100  # expect: T246
    u[0] = -1  # expect: T246
    u[0] = 18446744073709551615
    u[0] = n[0] - 2147483648  # expect: T246
    h[0] = 65504
    h[0] = 65520  # expect: T246
    h[0] = h[1] * 65520
    x[0] = 1e39  # expect: T246
    x[0] = 1e-50  # expect: T246
    x[0] = x[1] * 1e39  # expect: T246
    x[0] = y[0] * 1e39
    x[0] = 10**400  # expect: T246
    y[0] = 10**400  # expect: T246
    y[0] = 1e39
    y[0] = x[0] * 1e39  # expect: T246
    x[0] = max(1, 2) / 3


@proc
def constants_in_indices(n: size, x: f32[16]):
    x[4 / 2] = 1.0
    x[-7 / 2 + 4] = 1.0
    for i in seq(7 / 3, 16 / 2):
        x[(i + 4 / 2) / (4 / 2)] = 1.0
    x[2.0] = 1.0  # expect: T202
    x[10**30] = 1.0  # expect: T202
    x[n % 2**127] = 1.0  # expect: T202
    x[4 / 0] = 1.0  # expect: T203
    x[2**62 + 2**62] = 1.0  # expect: T202
