// Two neighbours in memory, at a multiple of both together, by one store.
template <typename T>
struct alignas(2 * sizeof(T)) Pair {
    T first, second;
};
template <typename T, typename V>
__device__ __forceinline__ void store_pair(T* to, V first, V second)
{
    *reinterpret_cast<Pair<T>*>(to) = {static_cast<T>(first), static_cast<T>(second)};
}
// Two numbers of 16 bits in one register, the first one below.
__device__ __forceinline__ void store_pair(unsigned short* to, unsigned both)
{
    *reinterpret_cast<unsigned*>(to) = both;
}
