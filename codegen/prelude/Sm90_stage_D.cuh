// A wgmma accumulator into shared memory, by rows (PTX ISA, wgmma, register fragments).
template <int M, int N>
__device__ __forceinline__ void Sm90_stage_D(float* C, int ld, float (&D)[M * N / 128])
{
#pragma unroll
    for (int i = 0; i < M * N / 128; ++i)
        asm volatile("" : "+f"(D[i]) :: "memory");  // not read before the wait that precedes
    const int t = threadIdx.x % 128, first = t / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
#pragma unroll
    for (int half = 0; half < M / 32; ++half) {
        float* const row = C + (half / 2 * 64 + half % 2 * 8 + first) * ld + column;
#pragma unroll
        for (int j = 0; j < N / 8; ++j) {
            const int i = half / 2 * (N / 2) + 4 * j + half % 2 * 2;
            *reinterpret_cast<float2*>(row + 8 * j) = make_float2(D[i], D[i + 1]);
        }
    }
}
