// Descriptor of a K-major matrix in swizzled shared memory, `swizzle` bytes a row: eight rows
// repeat, one after the other (PTX ISA, wgmma, matrix descriptor).
template <int swizzle>
__device__ __forceinline__ unsigned long long wgmma_descriptor(const void* matrix)
{
    static_assert(swizzle == 32 || swizzle == 64 || swizzle == 128, "rows of one swizzle");
    constexpr unsigned long long mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
    constexpr unsigned long long stride = 8 * swizzle / 16, leading = 1;
    return (smem_address(matrix) & 0x3ffff) / 16 | leading << 16 | stride << 32 | mode << 62;
}
