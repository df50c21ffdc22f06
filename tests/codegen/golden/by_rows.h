/* by_rows, made by exogpu.
 * x: f32[n, m] in host memory
 * y: f32[n, m] in host memory
 * Arrays are contiguous by rows and do not overlap; 16-bit floats are given as their bits.
 * It must hold that n >= 1, m >= 1.
 * `stream` is a cudaStream_t, null for the default one.  Kernels and copies are put on it in order.
 * Returns 0, or what stopped it: a cudaError_t, or one of the negative values below.
 */
#ifndef EXOGPU_by_rows_H
#define EXOGPU_by_rows_H

#define EXOGPU_WRONG_SIZE (-1)      /* a size does not satisfy the conditions: nothing was done */
#define EXOGPU_MISALIGNED (-2)      /* an array or, for TMA, a row does not start at 16 bytes */
#define EXOGPU_TOO_MANY_TASKS (-3)  /* more than a launch can number: it was left out */
#define EXOGPU_TOO_LARGE (-4)       /* a kernel would compute an index of more than 32 bits: left out */
#define EXOGPU_EMPTY (-6)           /* an array that TMA shall reach has no elements: left out */

#ifdef __cplusplus
extern "C"
#endif
int by_rows_launch(long long n, long long m, const float* x, float* y, void* stream);

#endif
