// The part of shared memory that lies in a CTA of the cluster where `own` does in this one (PTX ISA,
// mapa); a generic address.
template <typename T>
__device__ __forceinline__ T* of_cta(T* own, int cta)
{
    unsigned long long there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(own), "r"(cta));
    return reinterpret_cast<T*>(there);
}
