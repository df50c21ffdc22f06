/* gemm_splitk_sm90_2x1_128x256, made by exogpu.
 * A: f32[L, M, K_split, cluster_K] in device memory
 * B: f32[L, N, K_split, cluster_K] in device memory
 * C: f32[L, M, N] in device memory
 * Arrays are contiguous by rows and do not overlap; 16-bit floats are given as their bits.
 * It must hold that L >= 1, M >= 1, N >= 1, K_split >= 1, cluster_K >= 1, cluster_K % 4 == 0, N % 4 == 0.
 * `stream` is a cudaStream_t, null for the default one.  Kernels and copies are put on it in order.
 * Returns 0, or what stopped it: a cudaError_t, or one of the negative values below.
 */
#ifndef EXOGPU_gemm_splitk_sm90_2x1_128x256_H
#define EXOGPU_gemm_splitk_sm90_2x1_128x256_H

#define EXOGPU_WRONG_SIZE (-1)      /* a size does not satisfy the conditions: nothing was done */
#define EXOGPU_MISALIGNED (-2)      /* an array or, for TMA, a row does not start at 16 bytes */
#define EXOGPU_TOO_MANY_TASKS (-3)  /* more than a launch can number: it was left out */
#define EXOGPU_TOO_LARGE (-4)       /* a kernel would compute an index of more than 32 bits: left out */
#define EXOGPU_EMPTY (-6)           /* an array that TMA shall reach has no elements: left out */

#ifdef __cplusplus
extern "C"
#endif
int gemm_splitk_sm90_2x1_128x256_launch(long long L, long long M, long long N, long long K_split, long long cluster_K, const float* A, const float* B, float* C, void* stream);

#endif
