// One of the two 16-bit numbers in a register is written.
__device__ __forceinline__ void put_half(unsigned& word, int half, unsigned short bits)
{
    word = half ? (word & 0xffffu) | static_cast<unsigned>(bits) << 16 : (word & 0xffff0000u) | bits;
}
