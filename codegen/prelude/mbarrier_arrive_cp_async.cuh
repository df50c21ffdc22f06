// Arrives when the thread's cp.async so far have completed (PTX ISA, cp.async.mbarrier.arrive).
template <unsigned depth>
__device__ __forceinline__ void mbarrier_arrive_cp_async(unsigned ring, unsigned number)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];"
                 :: "r"(mbarrier_at<depth>(ring, number)) : "memory");
}
