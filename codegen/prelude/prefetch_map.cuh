// Brings a tensor map near, before the first copy asks for it (PTX ISA, prefetch.tensormap).
__device__ __forceinline__ void prefetch_map(const TensorMap& map)
{
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
}
