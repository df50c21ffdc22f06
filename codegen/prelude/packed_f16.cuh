// Two numbers as one register of f16, the first one below (PTX ISA, cvt.rn.f16x2).
__device__ __forceinline__ unsigned packed_f16(float first, float second)
{
#ifdef __CUDA_ARCH__
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
#else
    return to_f16(first) | static_cast<unsigned>(to_f16(second)) << 16;
#endif
}
