// Four adjacent bytes as one register, the first one lowest.
template <typename T>
__device__ __forceinline__ unsigned packed_bytes(const T* at)
{
    return (at[0] & 0xffu) | (at[1] & 0xffu) << 8 | (at[2] & 0xffu) << 16 | (at[3] & 0xffu) << 24;
}
