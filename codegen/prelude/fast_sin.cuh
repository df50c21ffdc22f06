// The sine by sin.approx, which is near for small numbers alone.
__host__ __device__ __forceinline__ float fast_sin(float x)
{
#ifdef __CUDA_ARCH__
    return __sinf(x);
#else
    return __builtin_sinf(x);
#endif
}
