// Arrives on a CTA's mbarrier of arrival `number` in a ring (PTX ISA, mapa, mbarrier.arrive).
template <unsigned depth>
__device__ __forceinline__ void mbarrier_arrive_cluster(unsigned ring, unsigned number, unsigned cta)
{
    asm volatile("{\n\t.reg .b32 remote;\n\t"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n\t"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n\t}"
                 :: "r"(mbarrier_at<depth>(ring, number)), "r"(cta) : "memory");
}
