// Product of two integers, of int or long long, that wraps around.
template <typename T>
__host__ __device__ __forceinline__ T wrapping_mul(T a, T b)
{
    return static_cast<T>(static_cast<unsigned long long>(a) * static_cast<unsigned long long>(b));
}
