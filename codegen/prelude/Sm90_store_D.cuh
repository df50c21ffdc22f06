// The first rows x cols elements of a wgmma accumulator (PTX ISA, wgmma, register fragments).
template <int M, int N>
__device__ __forceinline__ void Sm90_store_D(
    int rows, int cols, float* C, int ld, float (&D)[M * N / 128])
{
#pragma unroll
    for (int i = 0; i < M * N / 128; ++i)
        asm volatile("" : "+f"(D[i]) :: "memory");  // not read before the wait that precedes
    const int t = threadIdx.x % 128, first = t / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
#pragma unroll
    for (int half = 0; half < M / 32; ++half) {
        const int m = half / 2 * 64 + half % 2 * 8 + first;
        float* const row = C + static_cast<long long>(m) * ld + column;
        const bool pairs = reinterpret_cast<unsigned long long>(row) % 8 == 0;
        if (m < rows) {
#pragma unroll
            for (int j = 0; j < N / 8; ++j) {
                const int i = half / 2 * (N / 2) + 4 * j + half % 2 * 2, n = column + 8 * j;
                if (pairs && n + 1 < cols) {
                    *reinterpret_cast<float2*>(row + 8 * j) = make_float2(D[i], D[i + 1]);
                } else {
                    if (n < cols)
                        row[8 * j] = D[i];
                    if (n + 1 < cols)
                        row[8 * j + 1] = D[i + 1];
                }
            }
        }
    }
}
