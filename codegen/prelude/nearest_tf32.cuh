// f32 rounded to the nearest tf32, ties to even, as TMA does it (CUtensorMapDataType, TFLOAT32).
__host__ __device__ __forceinline__ float nearest_tf32(float x)
{
#ifdef __CUDA_ARCH__
    const unsigned bits = __float_as_uint(x);
    const unsigned near = (bits + 0xfffu + (bits >> 13 & 1u)) & 0xffffe000u;
    return x != x ? x : __uint_as_float(near);
#else
    unsigned bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0xfffu + (bits >> 13 & 1u)) & 0xffffe000u;
    float near;
    __builtin_memcpy(&near, &bits, sizeof near);
    return x != x ? x : near;
#endif
}
