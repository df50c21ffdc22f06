// The mbarrier of arrival `number` in a ring.
template <unsigned depth>
__device__ __forceinline__ unsigned mbarrier_at(unsigned ring, unsigned number)
{
    return ring + 8 * (number % depth);
}
