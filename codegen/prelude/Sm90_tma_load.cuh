// One lane of the warp copies a box to shared memory (PTX ISA, cp.async.bulk.tensor); with
// several CTAs in the mask, to the same place in each, and signals the same mbarrier in each.
template <int ctas, int rank>
__device__ __forceinline__ void Sm90_tma_load(
    const void* dst, const TensorMap& map, unsigned barrier, unsigned mask, const int (&at)[rank])
{
    static_assert(2 <= rank && rank <= 5, "tensor maps of 2 to 5 dimensions");
    if (threadIdx.x % 32 != 0)
        return;
    const unsigned to = smem_address(dst);
    const unsigned short to_ctas = static_cast<unsigned short>(mask);
    if constexpr (ctas == 1) {
        if constexpr (rank == 2)
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                         ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                         :: "r"(to), "l"(&map), "r"(barrier), "r"(at[0]), "r"(at[1]) : "memory");
        else if constexpr (rank == 3)
            asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
                         ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
                         :: "r"(to), "l"(&map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2])
                         : "memory");
        else if constexpr (rank == 4)
            asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile"
                         ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];"
                         :: "r"(to), "l"(&map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2]),
                            "r"(at[3]) : "memory");
        else
            asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile"
                         ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];"
                         :: "r"(to), "l"(&map), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2]),
                            "r"(at[3]), "r"(at[4]) : "memory");
    } else {
        if constexpr (rank == 2)
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                         ".mbarrier::complete_tx::bytes.multicast::cluster"
                         " [%0], [%1, {%4, %5}], [%2], %3;"
                         :: "r"(to), "l"(&map), "r"(barrier), "h"(to_ctas), "r"(at[0]), "r"(at[1])
                         : "memory");
        else if constexpr (rank == 3)
            asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
                         ".mbarrier::complete_tx::bytes.multicast::cluster"
                         " [%0], [%1, {%4, %5, %6}], [%2], %3;"
                         :: "r"(to), "l"(&map), "r"(barrier), "h"(to_ctas), "r"(at[0]), "r"(at[1]),
                            "r"(at[2]) : "memory");
        else if constexpr (rank == 4)
            asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile"
                         ".mbarrier::complete_tx::bytes.multicast::cluster"
                         " [%0], [%1, {%4, %5, %6, %7}], [%2], %3;"
                         :: "r"(to), "l"(&map), "r"(barrier), "h"(to_ctas), "r"(at[0]), "r"(at[1]),
                            "r"(at[2]), "r"(at[3]) : "memory");
        else
            asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile"
                         ".mbarrier::complete_tx::bytes.multicast::cluster"
                         " [%0], [%1, {%4, %5, %6, %7, %8}], [%2], %3;"
                         :: "r"(to), "l"(&map), "r"(barrier), "h"(to_ctas), "r"(at[0]), "r"(at[1]),
                            "r"(at[2]), "r"(at[3]), "r"(at[4]) : "memory");
    }
}
