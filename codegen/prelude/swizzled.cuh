// Where an element of swizzled shared memory is: units of 16 bytes are exchanged within `swizzle`
// bytes by the number of the row of 128 (PTX ISA, Swizzling Modes).  The memory starts at 1024.
template <int swizzle, int item>
__device__ __forceinline__ int swizzled(int element)
{
    const int byte = element * item;
    return (byte ^ (byte >> 3 & (swizzle - 16))) / item;
}
