// The number that has the lower bits of an integer.
template <typename F, typename T>
__host__ __device__ __forceinline__ F number_of(T bits)
{
#ifdef __CUDA_ARCH__
    return sizeof(F) == 4 ? static_cast<F>(__uint_as_float(static_cast<unsigned>(bits)))
                          : static_cast<F>(__longlong_as_double(static_cast<long long>(bits)));
#else
    const unsigned long long wide = static_cast<unsigned long long>(bits);
    F number;
    __builtin_memcpy(&number, &wide, sizeof number);
    return number;
#endif
}
