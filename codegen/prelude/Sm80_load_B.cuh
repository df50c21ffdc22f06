// Fragment of a tf32 tile stored N x K (PTX ISA, matrix fragments for mma.m16n8k4 and m16n8k8).
template <int N, int K>
__device__ __forceinline__ void Sm80_load_B(float (&B)[N * K / 32], const float* src, int ld)
{
    static_assert(N == 8 && (K == 4 || K == 8), "mma.sync takes 8 x 4 or 8 x 8 tf32 tiles");
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < K / 4; ++k)
        B[k] = to_tf32(src[lane / 4 * ld + lane % 4 + 4 * k]);
}
