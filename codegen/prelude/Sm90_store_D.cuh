// The first rows x cols elements of a wgmma accumulator (PTX ISA, wgmma, register fragments).
template <int M, int N>
__device__ __forceinline__ void Sm90_store_D(
    int rows, int cols, float* C, int ld, float (&D)[M * N / 128])
{
#pragma unroll
    for (int i = 0; i < M * N / 128; ++i)
        asm volatile("" : "+f"(D[i]) :: "memory");  // not read before the wait that precedes
    const int t = threadIdx.x % 128, first = t / 32 * 16 + t % 32 / 4;
    if (N % 16 == 0 && ld % 4 == 0 && reinterpret_cast<unsigned long long>(C) % 16 == 0
        && (cols >= N || cols % 4 == 0)) {
        // Two lanes exchange halves of two 8-column groups: each stores 16 bytes of one group.
        const bool odd = t % 2;
        const int column = 8 * odd + t % 4 / 2 * 4;
        float* const row = C + first * static_cast<long long>(ld) + column;
#pragma unroll
        for (int half = 0; half < M / 32; ++half) {
            const int m = half / 2 * 64 + half % 2 * 8;
            float* const to = row + m * static_cast<long long>(ld);
#pragma unroll
            for (int j = 0; j < N / 8; j += 2) {
                const float* const own = D + half / 2 * (N / 2) + 4 * j + half % 2 * 2;
                float x = odd ? own[0] : own[4], y = odd ? own[1] : own[5];
                asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;" : "+f"(x));
                asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;" : "+f"(y));
                const float4 v = odd ? make_float4(x, y, own[4], own[5])
                                     : make_float4(own[0], own[1], x, y);
                if (m + first < rows && column + 8 * j < cols)
                    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};"
                                 :: "l"(to + 8 * j), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
            }
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < M * N / 128; ++i) {
        const int m = i / (N / 2) * 64 + i % 4 / 2 * 8 + first;
        const int n = i % (N / 2) / 4 * 8 + t % 4 * 2 + i % 2;
        if (m < rows && n < cols)
            C[m * static_cast<long long>(ld) + n] = D[i];
    }
}
