// Fragment of a 64 x K tile for wgmma: 8 columns of tf32 at a time (PTX ISA, wgmma, registers).
template <int K>
__device__ __forceinline__ void Sm90_load_A(float (&A)[K / 2], const float* src, int ld)
{
    static_assert(K % 8 == 0, "fragments of 8 columns");
    const int t = threadIdx.x % 128, row = t / 32 * 16 + t % 32 / 4;
#pragma unroll
    for (int i = 0; i < K / 2; ++i)
        A[i] = src[(row + i % 2 * 8) * ld + i / 4 * 8 + i / 2 % 2 * 4 + t % 4];
}
// 16 columns of a 16-bit type at a time, two elements a register.
template <int K>
__device__ __forceinline__ void Sm90_load_A(
    unsigned (&A)[K / 4], const unsigned short* src, int ld)
{
    static_assert(K % 16 == 0, "fragments of 16 columns");
    const int t = threadIdx.x % 128, row = t / 32 * 16 + t % 32 / 4;
#pragma unroll
    for (int i = 0; i < K / 4; ++i) {
        const unsigned short* const two =
            src + (row + i % 2 * 8) * ld + i / 4 * 16 + i / 2 % 2 * 8 + t % 4 * 2;
        A[i] = two[0] | static_cast<unsigned>(two[1]) << 16;
    }
}
