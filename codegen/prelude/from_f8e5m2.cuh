// The number whose e5m2 bits are given: the upper half of f16.
__device__ __forceinline__ float from_f8e5m2(unsigned char bits)
{
    return from_f16(static_cast<unsigned short>(bits << 8));
}
