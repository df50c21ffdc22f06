// As Sm90_stage_f32, rounded to 16 bits: 16 columns of 16 rows are four matrices of stmatrix, whose
// eight rows the swizzle puts into different banks.
template <int M, int N, int cols, int swizzle, class Pack>
__device__ __forceinline__ void Sm90_stage_pairs(
    unsigned short* C, int ld, float (&D)[M * N / 128], int at, Pack pack)
{
    const int t = threadIdx.x % 128, row = t / 32 * 16 + t % 16;
    const int pitch = swizzle ? swizzle : 2 * ld;
    const int within = swizzle ? row * swizzle >> 3 & (swizzle - 16) : 0;
    const unsigned first = smem_address(C) + row * pitch + (t % 32 / 16 * 16 ^ within);
#pragma unroll
    for (int m = 0; m < M / 64; ++m) {
#pragma unroll
        for (int group = 0; group < cols / 8; group += 2) {
            float* const own = D + m * (N / 2) + 4 * (at / 8 + group);
#pragma unroll
            for (int i = 0; i < 8; ++i)
                pinned(own[i]);  // not read before the wait that precedes
            const unsigned to = swizzle ? first ^ 16 * group : first + 16 * group;
            stmatrix(to + 64 * m * pitch, pack(own[0], own[1]), pack(own[2], own[3]),
                     pack(own[4], own[5]), pack(own[6], own[7]));
        }
    }
}
