// Fragments of two tiles stored K x N (PTX ISA, ldmatrix.trans): of each first rows 0 to 7, then 8 to 15.
__device__ __forceinline__ void Sm80_ldmatrix_trans_B(unsigned short (&B)[2][4], const unsigned short* src, int ld)
{
    const int lane = threadIdx.x % 32;
    const unsigned address = smem_address(src + lane % 16 * ld + lane / 16 * 8);
    unsigned r[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        B[i / 2][i % 2 * 2] = static_cast<unsigned short>(r[i]);
        B[i / 2][i % 2 * 2 + 1] = static_cast<unsigned short>(r[i] >> 16);
    }
}
