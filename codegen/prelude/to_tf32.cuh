// The bits of f32 rounded to the nearest tf32, of two equally near ones to the greater in size.
__device__ __forceinline__ unsigned to_tf32(float value)
{
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
}
