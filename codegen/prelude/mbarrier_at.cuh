// The mbarrier of arrival `number` in a ring.
template <unsigned depth>
__device__ __forceinline__ unsigned mbarrier_at(unsigned ring, unsigned number)
{
    constexpr bool whole = (depth & (depth - 1)) == 0;  // else numbers are below 2 * depth
    return ring + 8 * (whole ? number % depth : number - (number >= depth) * depth);
}
