// One lane of the warp copies a box from shared to global memory (PTX ISA, cp.async.bulk.tensor).
template <int rank>
__device__ __forceinline__ void Sm90_tma_store(const void* src, const TensorMap& map, const int (&at)[rank])
{
    static_assert(2 <= rank && rank <= 5, "tensor maps of 2 to 5 dimensions");
    if (threadIdx.x % 32 != 0)
        return;
    if constexpr (rank == 2)
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];"
                     :: "l"(&map), "r"(smem_address(src)), "r"(at[0]), "r"(at[1]) : "memory");
    else if constexpr (rank == 3)
        asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];"
                     :: "l"(&map), "r"(smem_address(src)), "r"(at[0]), "r"(at[1]), "r"(at[2]) : "memory");
    else if constexpr (rank == 4)
        asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
                     :: "l"(&map), "r"(smem_address(src)), "r"(at[0]), "r"(at[1]), "r"(at[2]),
                        "r"(at[3]) : "memory");
    else
        asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];"
                     :: "l"(&map), "r"(smem_address(src)), "r"(at[0]), "r"(at[1]), "r"(at[2]),
                        "r"(at[3]), "r"(at[4]) : "memory");
}
