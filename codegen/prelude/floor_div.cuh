// Quotient rounded towards minus infinity; divisor > 0.
__device__ __forceinline__ int floor_div(int value, int divisor)
{
    return value / divisor - (value % divisor < 0);
}
