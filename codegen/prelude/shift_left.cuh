// Bits moved up; by a count that is negative or beyond the width, all are lost (PTX ISA, shl).
template <typename T, typename N>
__host__ __device__ __forceinline__ T shift_left(T a, N n)
{
    const unsigned width = 8 * sizeof(T);
    const bool inside = sizeof(N) == 4 ? static_cast<unsigned>(n) < width : static_cast<unsigned long long>(n) < width;
    if (!inside)
        return 0;
    return sizeof(T) == 4 ? static_cast<T>(static_cast<unsigned>(a) << n)
                          : static_cast<T>(static_cast<unsigned long long>(a) << n);
}
