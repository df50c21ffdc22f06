// The number whose f16 bits are given.
__device__ __forceinline__ float from_f16(unsigned short bits)
{
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    const unsigned sign = (bits & 0x8000u) << 16, most = bits & 0x7fffu;
    if (most >= 0x7c00u)
        return __uint_as_float(sign | 0x7f800000u | (most & 0x3ffu) << 13);
    // Subnormal or not: the exponents of the two types differ by 112.
    const float scaled = __uint_as_float(most << 13) * __uint_as_float((127u + 112u) << 23);
    return sign ? -scaled : scaled;
#endif
}
