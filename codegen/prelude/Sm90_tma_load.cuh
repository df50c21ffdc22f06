// One lane of the warp copies a box to shared memory (PTX ISA, cp.async.bulk.tensor); with
// several CTAs in the mask, to the same place in each, and signals the same mbarrier in each.
// What is loaded once is the first to leave the L2 cache (PTX ISA, createpolicy).
#define TMA_LOAD(dimensions, kind, more, coordinates, ...)                                      \
    asm volatile("cp.async.bulk.tensor." dimensions ".shared::cluster.global.tile"              \
                 ".mbarrier::complete_tx::bytes" kind                                           \
                 " [%0], [%1, {" coordinates "}], [%2]" more ";"                                \
                 :: "r"(to), "l"(&map), "r"(barrier), "h"(to_ctas), "l"(policy), __VA_ARGS__    \
                 : "memory")
#define TMA_LOAD_OF(dimensions, coordinates, ...)                                               \
    if constexpr (ctas == 1 && !once)                                                           \
        TMA_LOAD(dimensions, "", "", coordinates, __VA_ARGS__);                                 \
    else if constexpr (ctas == 1)                                                               \
        TMA_LOAD(dimensions, ".L2::cache_hint", ", %4", coordinates, __VA_ARGS__);              \
    else if constexpr (!once)                                                                   \
        TMA_LOAD(dimensions, ".multicast::cluster", ", %3", coordinates, __VA_ARGS__);          \
    else                                                                                        \
        TMA_LOAD(dimensions, ".multicast::cluster.L2::cache_hint", ", %3, %4", coordinates,     \
                 __VA_ARGS__)
template <int ctas, bool once, int rank>
__device__ __forceinline__ void Sm90_tma_load(
    const void* dst, const TensorMap& map, unsigned barrier, unsigned mask, const int (&at)[rank])
{
    static_assert(2 <= rank && rank <= 5, "tensor maps of 2 to 5 dimensions");
    if (threadIdx.x % 32 != 0)
        return;
    const unsigned to = smem_address(dst);
    const unsigned short to_ctas = static_cast<unsigned short>(mask);
    unsigned long long policy = 0;
    if constexpr (once)
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    if constexpr (rank == 2) {
        TMA_LOAD_OF("2d", "%5, %6", "r"(at[0]), "r"(at[1]));
    } else if constexpr (rank == 3) {
        TMA_LOAD_OF("3d", "%5, %6, %7", "r"(at[0]), "r"(at[1]), "r"(at[2]));
    } else if constexpr (rank == 4) {
        TMA_LOAD_OF("4d", "%5, %6, %7, %8", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]));
    } else {
        TMA_LOAD_OF("5d", "%5, %6, %7, %8, %9", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
                    "r"(at[4]));
    }
}
#undef TMA_LOAD_OF
#undef TMA_LOAD
