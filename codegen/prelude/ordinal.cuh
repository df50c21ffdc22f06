// The bits of a number, those of negative ones turned around: integers in the order of the numbers,
// -0 right before 0, and every NaN one that is more than infinity.
__host__ __device__ __forceinline__ int ordinal(float x)
{
#ifdef __CUDA_ARCH__
    const int bits = __float_as_int(x);
#else
    int bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
#endif
    return x != x ? 0x7fc00000 : bits ^ (bits >> 31 & 0x7fffffff);
}
