// Columns `at` and on of a wgmma accumulator (PTX ISA, wgmma, register fragments) into rows of
// `swizzle` bytes of swizzled shared memory, `cols` of them; 0: into rows `ld` elements apart.
//
// Half a warp stores 8 bytes a lane in four rows.  Of two rows whose swizzle would leave them in the
// same banks one takes another group of 8 columns at a time.
template <int M, int N, int cols, int swizzle>
__device__ __forceinline__ void Sm90_stage_f32(float* C, int ld, float (&D)[M * N / 128], int at)
{
    constexpr int other = swizzle == 128 ? 2 : swizzle == 64 ? 1 : 0;
    const int t = threadIdx.x % 128, row = t / 32 * 16 + t % 32 / 4;
    const bool turned = swizzle == 128 ? row % 2 : swizzle == 64 ? row / 2 % 2 : false;
    const int pitch = swizzle ? swizzle : 4 * ld;
    const int within = swizzle ? row * swizzle >> 3 & (swizzle - 16) : 0;
    const unsigned first = smem_address(C) + row * pitch + (8 * (t % 4) ^ within ^ turned * 32 * other);
#pragma unroll
    for (int m = 0; m < M / 64; ++m)
#pragma unroll
        for (int i = 0; i < cols / 2; ++i)
            pinned(D[m * (N / 2) + at / 2 + i]);  // not read before the wait that precedes
#pragma unroll
    for (int half = 0; half < M / 32; ++half) {
        const int below = half / 2 * 64 + half % 2 * 8;
#pragma unroll
        for (int group = 0; group < cols / 8; ++group) {
            float* const own = D + half / 2 * (N / 2) + half % 2 * 2 + 4 * (at / 8 + group);
            float* const turn = D + half / 2 * (N / 2) + half % 2 * 2 + 4 * (at / 8 + (group ^ other));
            const unsigned to = swizzle ? first ^ 32 * group : first + 32 * group;
            store_two(to + below * pitch, turned ? turn[0] : own[0], turned ? turn[1] : own[1]);
        }
    }
}
