// The bits of the nearest e4m3, ties to even, or of the greatest (PTX ISA, cvt.rn.satfinite); of an
// f64 by way of f32.
__device__ __forceinline__ unsigned char to_f8e4m3(float value)
{
#if __CUDA_ARCH__ >= 890
    unsigned short bits;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(0.0f), "f"(value));
    return static_cast<unsigned char>(bits);
#else
    if (value != value)
        return 0x7fu;
    const unsigned sign = __float_as_uint(value) >> 24 & 0x80u;
    const unsigned most = __float_as_uint(448.0f), own = __float_as_uint(value) & 0x7fffffffu;
    const unsigned size = own < most ? own : most;
    const unsigned exponent = size >> 23 > 121u ? size >> 23 : 121u;
    // A number so large that its last place is that of the result: the sum is rounded to it.
    const unsigned large = (exponent + 20u) << 23 | 1u << 22;
    const unsigned whole = __float_as_uint(__uint_as_float(large) + __uint_as_float(size)) - large;
    return static_cast<unsigned char>(sign | (((exponent - 121u) << 3) + whole));
#endif
}
__device__ __forceinline__ unsigned char to_f8e4m3(double value)
{
    return to_f8e4m3(static_cast<float>(value));
}
