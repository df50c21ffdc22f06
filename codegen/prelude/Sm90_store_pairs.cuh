// The first rows x cols elements of a wgmma accumulator, as pairs of 16 bits (PTX ISA, wgmma,
// register fragments): a lane has two neighbours of each 8 columns.
template <int M, int N, class Pack>
__device__ __forceinline__ void Sm90_store_pairs(
    int rows, int cols, unsigned short* C, int ld, float (&D)[M * N / 128], Pack pack)
{
#pragma unroll
    for (int i = 0; i < M * N / 128; ++i)
        asm volatile("" : "+f"(D[i]) :: "memory");  // not read before the wait that precedes
    const int t = threadIdx.x % 128, first = t / 32 * 16 + t % 32 / 4;
    if (ld % 8 == 0 && reinterpret_cast<unsigned long long>(C) % 16 == 0
        && (cols >= N || cols % 8 == 0)) {
        // Four lanes exchange pairs of four 8-column groups: each stores 16 bytes, a group.
        const int lane = t % 4;
        const bool odd = lane % 2, high = lane / 2;
        unsigned short* const row = C + first * static_cast<long long>(ld) + 8 * lane;
#pragma unroll
        for (int half = 0; half < M / 32; ++half) {
            const int m = half / 2 * 64 + half % 2 * 8;
            unsigned short* const to = row + m * static_cast<long long>(ld);
#pragma unroll
            for (int j = 0; j < N / 8; j += 4) {
                const float* const own = D + half / 2 * (N / 2) + 4 * j + half % 2 * 2;
                const int groups = N / 8 - j;  // of four: at the end there may be fewer
                const unsigned p0 = pack(own[0], own[1]);
                const unsigned p1 = groups > 1 ? pack(own[4], own[5]) : 0;
                const unsigned p2 = groups > 2 ? pack(own[8], own[9]) : 0;
                const unsigned p3 = groups > 3 ? pack(own[12], own[13]) : 0;
                // Transposed in two steps: with the neighbour, then with the other two.
                unsigned x = odd ? p0 : p1, y = odd ? p2 : p3;
                asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;" : "+r"(x));
                asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;" : "+r"(y));
                const unsigned a0 = odd ? x : p0, a1 = odd ? p1 : x;  // of group `odd`
                const unsigned b0 = odd ? y : p2, b1 = odd ? p3 : y;  // of group 2 + `odd`
                unsigned u = high ? a0 : b0, v = high ? a1 : b1;
                asm volatile("shfl.sync.bfly.b32 %0, %0, 2, 0x1f, 0xffffffff;" : "+r"(u));
                asm volatile("shfl.sync.bfly.b32 %0, %0, 2, 0x1f, 0xffffffff;" : "+r"(v));
                const uint4 w = high ? make_uint4(u, v, b0, b1) : make_uint4(a0, a1, u, v);
                if (lane < groups && m + first < rows && 8 * (j + lane) < cols)
                    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                                 :: "l"(to + 8 * j), "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w)
                                 : "memory");
            }
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < M * N / 128; i += 2) {
        const int m = i / (N / 2) * 64 + i % 4 / 2 * 8 + first;
        const int n = i % (N / 2) / 4 * 8 + t % 4 * 2;
        const unsigned pair = pack(D[i], D[i + 1]);
        unsigned short* const to = C + m * static_cast<long long>(ld) + n;
        if (m < rows && n < cols)
            to[0] = pair;
        if (m < rows && n + 1 < cols)
            to[1] = pair >> 16;
    }
}
