// The bits of a number.
__host__ __device__ __forceinline__ unsigned bits_of(float x)
{
#ifdef __CUDA_ARCH__
    return __float_as_uint(x);
#else
    unsigned bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
#endif
}
__host__ __device__ __forceinline__ unsigned long long bits_of(double x)
{
#ifdef __CUDA_ARCH__
    return static_cast<unsigned long long>(__double_as_longlong(x));
#else
    unsigned long long bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
#endif
}
