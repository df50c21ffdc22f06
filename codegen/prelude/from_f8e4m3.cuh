// The number whose e4m3 bits are given: the exponents of e4m3 and f32 differ by 120.
__device__ __forceinline__ float from_f8e4m3(unsigned char bits)
{
    const unsigned sign = (bits & 0x80u) << 24, most = bits & 0x7fu;
    const float size = __uint_as_float(most << 20) * __uint_as_float((127u + 120u) << 23);
    return __uint_as_float(sign | (most == 0x7fu ? 0x7fc00000u : __float_as_uint(size)));
}
