// The greater of two numbers: NaN if one is, and of two zeros the one without a sign.
template <typename T>
__host__ __device__ __forceinline__ T maximum(T a, T b)
{
    if (a == 0 && b == 0)
        return a + b;
    return a > b || a != a ? a : b;
}
__host__ __device__ __forceinline__ float maximum(float a, float b)
{
#ifdef __CUDA_ARCH__
    float found;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(found) : "f"(a), "f"(b));
    return found;
#else
    return maximum<float>(a, b);
#endif
}
