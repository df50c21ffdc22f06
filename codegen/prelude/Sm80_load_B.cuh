// Fragment of a tf32 tile stored N x K (PTX ISA, matrix fragments for mma.m16n8k4 and m16n8k8).
template <int N, int K>
__device__ __forceinline__ void Sm80_load_B(float (&B)[N * K / 32], const float* src, int ld)
{
    static_assert(N == 8 && (K == 4 || K == 8), "mma.sync takes 8 x 4 or 8 x 8 tf32 tiles");
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < K / 4; ++k)
        B[k] = src[lane / 4 * ld + lane % 4 + 4 * k];
}
// Fragment of a tile of a 16-bit type stored N x K (PTX ISA, matrix fragments for mma.m16n8k16).
template <int N, int K>
__device__ __forceinline__ void Sm80_load_B(
    unsigned short (&B)[N * K / 32], const unsigned short* src, int ld)
{
    static_assert(N == 8 && K == 16, "mma.sync takes 8 x 16 tiles of 16-bit types");
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 4; ++i)
        B[i] = src[lane / 4 * ld + lane % 4 * 2 + i % 2 + i / 2 * 8];
}
