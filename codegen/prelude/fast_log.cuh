// The logarithm by lg2.approx.
__host__ __device__ __forceinline__ float fast_log(float x)
{
#ifdef __CUDA_ARCH__
    return __logf(x);
#else
    return __builtin_logf(x);
#endif
}
