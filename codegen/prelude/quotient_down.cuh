// Quotient of two integers, rounded down; that by -1 wraps around.
template <typename T>
__host__ __device__ __forceinline__ T quotient_down(T a, T b)
{
    if (static_cast<T>(-1) < 0 && b == static_cast<T>(-1))
        return static_cast<T>(0 - static_cast<unsigned long long>(a));
    const T whole = a / b;
    return whole * b != a && (a < 0) != (b < 0) ? whole - 1 : whole;
}
