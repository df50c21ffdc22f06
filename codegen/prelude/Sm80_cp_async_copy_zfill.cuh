// cp.async of the first `valid` of N adjacent elements; the others become zero (src-size).
template <int N, typename T>
__device__ __forceinline__ void Sm80_cp_async_copy_zfill(int valid, T* dst, const T* src)
{
    constexpr int bytes = N * sizeof(T);
    static_assert(bytes == 4 || bytes == 8 || bytes == 16, "cp.async copies 4, 8 or 16 bytes");
    const int source = max(0, min(valid, N)) * static_cast<int>(sizeof(T));
    if constexpr (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(smem_address(dst)), "l"(src), "r"(source) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     :: "r"(smem_address(dst)), "l"(src), "n"(bytes), "r"(source) : "memory");
}
