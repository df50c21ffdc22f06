// Initialises `barriers` adjacent mbarriers; `count` arrivals complete a phase (mbarrier.init).
__device__ __forceinline__ void mbarrier_init(unsigned ring, int barriers, unsigned count)
{
    for (int i = 0; i < barriers; ++i)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(ring + 8 * i), "r"(count) : "memory");
}
