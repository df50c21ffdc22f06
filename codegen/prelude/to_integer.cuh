// A number rounded to nearest even, towards zero, down or up (modes 0 to 3): the least or the
// greatest integer where the type has none, and 0 of NaN.
template <typename T, int mode>
__host__ __device__ __forceinline__ T to_integer(double x)
{
    const bool is_signed = static_cast<T>(-1) < 0;
    const double beyond = static_cast<double>(1ull << (8 * sizeof(T) - 1)) * (is_signed ? 1 : 2);
    const double least = is_signed ? -beyond : 0;
    const T greatest = static_cast<T>(static_cast<unsigned long long>(-1) >> (64 - 8 * sizeof(T) + is_signed));
    const double whole = mode == 0 ? rint(x) : mode == 1 ? trunc(x) : mode == 2 ? floor(x) : ceil(x);
    if (whole >= beyond)
        return greatest;
    if (whole < least)
        return static_cast<T>(is_signed ? static_cast<T>(~greatest) : 0);
    return x != x ? 0 : static_cast<T>(whole);
}
template <typename T, int mode>
__host__ __device__ __forceinline__ T to_integer(float x)
{
#ifdef __CUDA_ARCH__
    const bool is_signed = static_cast<T>(-1) < 0;
    if (sizeof(T) == 4 && !is_signed)
        return static_cast<T>(mode == 0   ? __float2uint_rn(x)
                              : mode == 1 ? __float2uint_rz(x)
                              : mode == 2 ? __float2uint_rd(x)
                                          : __float2uint_ru(x));
    if (sizeof(T) <= 4) {
        const int whole = mode == 0   ? __float2int_rn(x)
                          : mode == 1 ? __float2int_rz(x)
                          : mode == 2 ? __float2int_rd(x)
                                      : __float2int_ru(x);
        if (sizeof(T) == 4)
            return static_cast<T>(whole);
        const int greatest = (1 << (8 * (sizeof(T) & 3) - is_signed)) - 1, least = is_signed ? -greatest - 1 : 0;
        return static_cast<T>(whole > greatest ? greatest : whole < least ? least : whole);
    }
    if (x != x)
        return 0;
    if (is_signed)
        return static_cast<T>(mode == 0   ? __float2ll_rn(x)
                              : mode == 1 ? __float2ll_rz(x)
                              : mode == 2 ? __float2ll_rd(x)
                                          : __float2ll_ru(x));
    return static_cast<T>(mode == 0   ? __float2ull_rn(x)
                          : mode == 1 ? __float2ull_rz(x)
                          : mode == 2 ? __float2ull_rd(x)
                                      : __float2ull_ru(x));
#else
    return to_integer<T, mode>(static_cast<double>(x));
#endif
}
