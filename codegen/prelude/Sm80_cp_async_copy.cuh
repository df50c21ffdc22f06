// cp.async of N adjacent elements; 16 bytes bypass L1 (PTX ISA, cp.async).
template <int N, typename T>
__device__ __forceinline__ void Sm80_cp_async_copy(T* dst, const T* src)
{
    constexpr int bytes = N * sizeof(T);
    static_assert(bytes == 4 || bytes == 8 || bytes == 16, "cp.async copies 4, 8 or 16 bytes");
    if constexpr (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                     :: "r"(smem_address(dst)), "l"(src) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                     :: "r"(smem_address(dst)), "l"(src), "n"(bytes) : "memory");
}
