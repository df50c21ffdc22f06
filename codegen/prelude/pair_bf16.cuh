// Two numbers become one register of bf16: the lower one waits in it, unrounded, for the upper one.
__device__ __forceinline__ void pair_bf16(unsigned& word, int half, float value)
{
    if (half == 0) {
        word = __float_as_uint(value);
        return;
    }
#ifdef __CUDA_ARCH__
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(value), "f"(__uint_as_float(word)));
#else
    word = to_bf16(__uint_as_float(word)) | static_cast<unsigned>(to_bf16(value)) << 16;
#endif
}
