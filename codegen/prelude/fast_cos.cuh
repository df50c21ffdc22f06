// The cosine by cos.approx, which is near for small numbers alone.
__host__ __device__ __forceinline__ float fast_cos(float x)
{
#ifdef __CUDA_ARCH__
    return __cosf(x);
#else
    return __builtin_cosf(x);
#endif
}
