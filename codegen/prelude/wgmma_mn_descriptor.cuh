// Descriptor of a matrix that is stored by columns in swizzled shared memory: rows of `swizzle` bytes
// are k, eight of them repeat, one after the other; `apart` bytes on are the next columns (PTX ISA,
// wgmma, matrix descriptor and canonical layouts: MN-major).
template <int swizzle>
__device__ __forceinline__ unsigned long long wgmma_mn_descriptor(const void* matrix, unsigned apart)
{
    return (wgmma_descriptor<swizzle>(matrix) & ~(0x3fffull << 16)) |
           static_cast<unsigned long long>(apart / 16) << 16;
}
