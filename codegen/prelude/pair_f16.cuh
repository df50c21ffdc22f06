// Two numbers become one register of f16: the lower one waits in it, unrounded, for the upper one.
__device__ __forceinline__ void pair_f16(unsigned& word, int half, float value)
{
    if (half == 0) {
        word = __float_as_uint(value);
        return;
    }
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(value), "f"(__uint_as_float(word)));
#else
    word = to_f16(__uint_as_float(word)) | static_cast<unsigned>(to_f16(value)) << 16;
#endif
}
