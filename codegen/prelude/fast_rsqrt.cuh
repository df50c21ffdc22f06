// 1 / sqrt(x) by rsqrt.approx.
__host__ __device__ __forceinline__ float fast_rsqrt(float x)
{
#ifdef __CUDA_ARCH__
    float found;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(x));
    return found;
#else
    return 1.0f / __builtin_sqrtf(x);
#endif
}
