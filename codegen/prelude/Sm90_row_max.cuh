// The greatest of each row of a wgmma accumulator, in the four lanes that hold the row.
template <int M, int N>
__device__ __forceinline__ void Sm90_row_max(float (&rows)[M / 32], float (&D)[M * N / 128])
{
    pinned(D);
#pragma unroll
    for (int h = 0; h < M / 32; ++h) {
        const float* const own = D + h / 2 * (N / 2) + h % 2 * 2;
        float found = maximum(own[0], own[1]);
#pragma unroll
        for (int j = 1; j < N / 8; ++j)
            found = maximum(found, maximum(own[4 * j], own[4 * j + 1]));
        found = maximum(found, __shfl_xor_sync(0xffffffffu, found, 1));
        rows[h] = maximum(found, __shfl_xor_sync(0xffffffffu, found, 2));
    }
}
