// Element `at` of n, where there is one; n less is left in `at`.
template <typename T>
__device__ __forceinline__ void cuda_pick(int n, T& dst, int& at, const T* src)
{
    if (at >= 0 && at < n)
        dst = src[at];
    at = static_cast<int>(static_cast<unsigned>(at) - static_cast<unsigned>(n));
}
template <typename T>
__device__ __forceinline__ void cuda_pick(int n, T& dst, long long& at, const T* src)
{
    if (at >= 0 && at < n)
        dst = src[at];
    at = static_cast<long long>(static_cast<unsigned long long>(at) - static_cast<unsigned long long>(n));
}
