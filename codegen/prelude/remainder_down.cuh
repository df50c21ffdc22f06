// What a quotient that is rounded down leaves: it has the sign of the divisor.
template <typename T>
__host__ __device__ __forceinline__ T remainder_down(T a, T b)
{
    if (static_cast<T>(-1) < 0 && b == static_cast<T>(-1))
        return 0;
    const T rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
