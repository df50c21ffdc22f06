// 1 / x by rcp.approx.
__host__ __device__ __forceinline__ float fast_rcp(float x)
{
#ifdef __CUDA_ARCH__
    float found;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(x));
    return found;
#else
    return 1.0f / x;
#endif
}
