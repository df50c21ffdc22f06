// The logarithm of base 2 by lg2.approx.
__host__ __device__ __forceinline__ float fast_log2(float x)
{
#ifdef __CUDA_ARCH__
    return __log2f(x);
#else
    return __builtin_log2f(x);
#endif
}
