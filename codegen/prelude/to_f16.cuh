// The bits of the nearest f16, ties to even.
__device__ __forceinline__ unsigned short to_f16(double value)
{
#ifdef __CUDA_ARCH__
    unsigned short bits;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(value));
    return bits;
#else
    const unsigned short sign = __builtin_signbit(value) ? 0x8000u : 0;
    const double size = __builtin_fabs(value);
    if (value != value)
        return 0x7fffu;
    if (size >= 65520.0)
        return sign | 0x7c00u;
    int exponent = 0;
    __builtin_frexp(size, &exponent);
    // In units of the last place, of which there are 11 bits, fewer below 2^-14.
    const int unit = (size > 0 && exponent > -13 ? exponent : -13) - 11;
    const unsigned whole = static_cast<unsigned>(__builtin_rint(__builtin_ldexp(size, -unit)));
    return sign | static_cast<unsigned short>(((unit + 24) << 10) + whole);
#endif
}
__device__ __forceinline__ unsigned short to_f16(float value)
{
#ifdef __CUDA_ARCH__
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    return to_f16(static_cast<double>(value));
#endif
}
