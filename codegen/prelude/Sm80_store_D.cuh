// The first rows x cols elements of a 16 x 8 accumulator (PTX ISA, fragments of mma.m16n8k8).
__device__ __forceinline__ void Sm80_store_D(int rows, int cols, float* C, int ld, const float (&D)[4])
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int m = lane / 4 + 8 * (i / 2), n = lane % 4 * 2 + i % 2;
        if (m < rows && n < cols)
            C[static_cast<long long>(m) * ld + n] = D[i];
    }
}
