// Remainder in 0 .. divisor - 1; divisor > 0.
__device__ __forceinline__ int floor_mod(int value, int divisor)
{
    const int rest = value % divisor;
    return rest < 0 ? rest + divisor : rest;
}
