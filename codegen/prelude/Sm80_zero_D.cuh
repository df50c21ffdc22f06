// Every element of an accumulator fragment becomes zero.
template <int N>
__device__ __forceinline__ void Sm80_zero_D(float (&D)[N])
{
#pragma unroll
    for (int i = 0; i < N; ++i)
        D[i] = 0.0f;
}
