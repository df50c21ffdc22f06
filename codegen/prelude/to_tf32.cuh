// f32 rounded to the nearest tf32, in the bits of an f32.
__device__ __forceinline__ float to_tf32(float value)
{
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return __uint_as_float(bits);
}
