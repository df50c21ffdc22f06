// Stores two numbers side by side into shared memory, at a multiple of 8 bytes (PTX ISA, st).
__device__ __forceinline__ void store_two(unsigned to, float first, float second)
{
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" :: "r"(to), "f"(first), "f"(second) : "memory");
}
