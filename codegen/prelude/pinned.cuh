// Registers of wgmma are neither read nor written on the other side of here.
__device__ __forceinline__ void pinned(float& x) { asm volatile("" : "+f"(x) :: "memory"); }
__device__ __forceinline__ void pinned(int& x) { asm volatile("" : "+r"(x) :: "memory"); }
__device__ __forceinline__ void pinned(unsigned& x) { asm volatile("" : "+r"(x) :: "memory"); }
template <typename T, int N>
__device__ __forceinline__ void pinned(T (&x)[N])
{
#pragma unroll
    for (int i = 0; i < N; ++i)
        pinned(x[i]);
}
