// The first rows x cols elements of a wgmma accumulator, rounded to bf16 (PTX ISA, cvt.rn.bf16x2).
template <int M, int N>
__device__ __forceinline__ void Sm90_store_D_bf16(
    int rows, int cols, unsigned short* C, int ld, float (&D)[M * N / 128])
{
    Sm90_store_pairs<M, N>(rows, cols, C, ld, D, [](float first, float second) {
        return packed_bf16(first, second);
    });
}
