// Arrives, and tells how many bytes the phase waits for (PTX ISA, mbarrier.arrive.expect_tx).
template <unsigned depth>
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned ring, unsigned number, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;"
                 :: "r"(mbarrier_at<depth>(ring, number)), "r"(bytes) : "memory");
}
