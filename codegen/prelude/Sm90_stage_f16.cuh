// As Sm90_stage_f32, rounded to f16.
template <int M, int N, int cols, int swizzle>
__device__ __forceinline__ void Sm90_stage_f16(
    unsigned short* C, int ld, float (&D)[M * N / 128], int at)
{
    Sm90_stage_pairs<M, N, cols, swizzle>(
        C, ld, D, at, [](float first, float second) { return packed_f16(first, second); });
}
