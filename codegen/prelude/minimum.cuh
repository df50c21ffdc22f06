// The lesser of two numbers: NaN if one is, and of two zeros the one with a sign.
template <typename T>
__host__ __device__ __forceinline__ T minimum(T a, T b)
{
    if (a == 0 && b == 0)
        return -(-a - b);
    return a < b || a != a ? a : b;
}
__host__ __device__ __forceinline__ float minimum(float a, float b)
{
#ifdef __CUDA_ARCH__
    float found;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(found) : "f"(a), "f"(b));
    return found;
#else
    return minimum<float>(a, b);
#endif
}
