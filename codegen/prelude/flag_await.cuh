// Waits until so many have arrived on a flag, and acquires what they released.
__device__ __forceinline__ void flag_await(const int* flag, int count)
{
    int arrived;
    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"(flag) : "memory");
    } while (arrived < count);
}
