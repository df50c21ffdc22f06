// One of the two 16-bit numbers in a register.
__device__ __forceinline__ unsigned short half_of(unsigned word, int half)
{
    return static_cast<unsigned short>(half ? word >> 16 : word & 0xffffu);
}
