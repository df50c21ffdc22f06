// The bits of the nearest bf16, ties to even; of an f64 by way of f32.
__device__ __forceinline__ unsigned short to_bf16(float value)
{
#ifdef __CUDA_ARCH__
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    const unsigned bits = __float_as_uint(value);
    if (value != value)
        return 0x7fffu;
    return static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
#endif
}
__device__ __forceinline__ unsigned short to_bf16(double value)
{
    return to_bf16(static_cast<float>(value));
}
