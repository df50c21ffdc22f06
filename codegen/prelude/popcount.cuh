// The number of bits that are 1.
template <typename T>
__host__ __device__ __forceinline__ int popcount(T a)
{
#ifdef __CUDA_ARCH__
    return sizeof(T) == 4 ? __popc(static_cast<unsigned>(a)) : __popcll(static_cast<unsigned long long>(a));
#else
    return sizeof(T) == 4 ? __builtin_popcount(static_cast<unsigned>(a))
                          : __builtin_popcountll(static_cast<unsigned long long>(a));
#endif
}
