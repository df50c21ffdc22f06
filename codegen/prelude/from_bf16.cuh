// The number whose bf16 bits are given.
__device__ __forceinline__ float from_bf16(unsigned short bits)
{
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
}
