// Quotient of two integers, truncated; that by -1 wraps around.
template <typename T>
__host__ __device__ __forceinline__ T wrapping_div(T a, T b)
{
    return b == -1 ? static_cast<T>(0 - static_cast<unsigned long long>(a)) : a / b;
}
