// e^x by ex2.approx of a product, which rounds.
__host__ __device__ __forceinline__ float fast_exp(float x)
{
#ifdef __CUDA_ARCH__
    return __expf(x);
#else
    return __builtin_expf(x);
#endif
}
