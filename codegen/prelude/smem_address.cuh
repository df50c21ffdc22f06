// The address of a shared-memory object in the shared state space, as PTX takes it.
__device__ __forceinline__ unsigned smem_address(const void* pointer)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
