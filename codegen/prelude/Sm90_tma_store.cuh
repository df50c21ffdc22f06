// One lane of the warp copies a box from shared to global memory (PTX ISA, cp.async.bulk.tensor).
template <int rank>
__device__ __forceinline__ void Sm90_tma_store(const void* src, const TensorMap& map, const int (&at)[rank])
{
    static_assert(rank == 2 || rank == 3, "tensor maps of 2 or 3 dimensions");
    if (threadIdx.x % 32 != 0)
        return;
    if constexpr (rank == 2)
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
                     :: "l"(&map), "r"(smem_address(src)), "r"(at[0]), "r"(at[1]) : "memory");
    else
        asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];"
                     :: "l"(&map), "r"(smem_address(src)), "r"(at[0]), "r"(at[1]), "r"(at[2]) : "memory");
}
