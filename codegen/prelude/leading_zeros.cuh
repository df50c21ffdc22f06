// The number of bits before the first 1.
template <typename T>
__host__ __device__ __forceinline__ int leading_zeros(T a)
{
#ifdef __CUDA_ARCH__
    return sizeof(T) == 4 ? __clz(static_cast<int>(a)) : __clzll(static_cast<long long>(a));
#else
    if (a == 0)
        return 8 * sizeof(T);
    return sizeof(T) == 4 ? __builtin_clz(static_cast<unsigned>(a))
                          : __builtin_clzll(static_cast<unsigned long long>(a));
#endif
}
