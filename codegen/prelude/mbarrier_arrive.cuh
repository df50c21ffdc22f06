// Arrives on the mbarrier of arrival `number` in a ring (PTX ISA, mbarrier.arrive).
template <unsigned depth>
__device__ __forceinline__ void mbarrier_arrive(unsigned ring, unsigned number)
{
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];"
                 :: "r"(mbarrier_at<depth>(ring, number)) : "memory");
}
