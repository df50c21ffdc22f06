// Fragment of a 16 x K tf32 tile (PTX ISA, matrix fragments for mma.m16n8k4 and m16n8k8).
template <int M, int K>
__device__ __forceinline__ void Sm80_load_A(float (&A)[M * K / 32], const float* src, int ld)
{
    static_assert(M == 16 && (K == 4 || K == 8), "mma.sync takes 16 x 4 or 16 x 8 tf32 tiles");
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < K / 4; ++k)
#pragma unroll
        for (int m = 0; m < 2; ++m)
            A[2 * k + m] = src[(lane / 4 + 8 * m) * ld + lane % 4 + 4 * k];
}
// Fragment of a 16 x 16 tile of a 16-bit type (PTX ISA, matrix fragments for mma.m16n8k16).
template <int M, int K>
__device__ __forceinline__ void Sm80_load_A(
    unsigned short (&A)[M * K / 32], const unsigned short* src, int ld)
{
    static_assert(M == 16 && K == 16, "mma.sync takes 16 x 16 tiles of 16-bit types");
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 8; ++i)
        A[i] = src[(lane / 4 + i / 2 % 2 * 8) * ld + lane % 4 * 2 + i % 2 + i / 4 * 8];
}
