// Four bytes of eight: each four bits of the selector name one, or with 8 added its sign (PTX ISA,
// prmt).
template <typename T>
__host__ __device__ __forceinline__ T permuted_bytes(T low, T high, T selector)
{
    unsigned found = 0;
#ifdef __CUDA_ARCH__
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(found) : "r"(low), "r"(high), "r"(selector));
#else
    const unsigned long long both =
        static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 | static_cast<unsigned>(low);
    for (int at = 0; at < 4; ++at) {
        const unsigned name = static_cast<unsigned>(selector) >> 4 * at & 15u;
        unsigned byte = static_cast<unsigned>(both >> 8 * (name & 7u)) & 255u;
        if (name & 8u)
            byte = byte & 128u ? 255u : 0u;
        found |= byte << 8 * at;
    }
#endif
    return static_cast<T>(found);
}
