// Bits moved down, the sign after them; by a count that is negative or beyond the width, only the
// sign is left (PTX ISA, shr).
template <typename T, typename N>
__host__ __device__ __forceinline__ T shift_right(T a, N n)
{
    const unsigned width = 8 * sizeof(T);
    const bool inside = sizeof(N) == 4 ? static_cast<unsigned>(n) < width : static_cast<unsigned long long>(n) < width;
    return inside ? static_cast<T>(a >> n) : a < 0 ? static_cast<T>(-1) : static_cast<T>(0);
}
