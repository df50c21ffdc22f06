/* gemm_sm80, made by exogpu.
 * A: f32[M, K] in device memory
 * B: f32[N, K] in device memory
 * C: f32[M, N] in device memory
 * Arrays are contiguous by rows and do not overlap; 16-bit floats are given as their bits.
 * It must hold that M >= 1, N >= 1, K >= 1, K % 4 == 0.
 * `stream` is a cudaStream_t, null for the default one.  Kernels and copies are put on it in order.
 * Returns 0, or what stopped it: a cudaError_t, or one of the negative values below.
 */
#ifndef EXOGPU_gemm_sm80_H
#define EXOGPU_gemm_sm80_H

#define EXOGPU_WRONG_SIZE (-1)      /* a size does not satisfy the conditions: nothing was done */
#define EXOGPU_MISALIGNED (-2)      /* an array or, for TMA, a row does not start at 16 bytes */
#define EXOGPU_TOO_MANY_TASKS (-3)  /* more than a launch can number: it was left out */
#define EXOGPU_TOO_LARGE (-4)       /* a kernel would compute an index of more than 32 bits: left out */
#define EXOGPU_EMPTY (-6)           /* an array that TMA shall reach has no elements: left out */

#ifdef __cplusplus
extern "C"
#endif
int gemm_sm80_launch(long long M, long long N, long long K, const float* A, const float* B, float* C, void* stream);

#endif
