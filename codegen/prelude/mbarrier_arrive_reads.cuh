// Arrives on the mbarrier of a CTA of the cluster, with reads alone to order (mbarrier.arrive).
template <unsigned depth>
__device__ __forceinline__ void mbarrier_arrive_reads(unsigned ring, unsigned number, unsigned cta)
{
    asm volatile("{\n\t.reg .b32 remote;\n\t"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n\t"
                 "mbarrier.arrive.release.cta.shared::cluster.b64 _, [remote];\n\t}"
                 :: "r"(mbarrier_at<depth>(ring, number)), "r"(cta) : "memory");
}
