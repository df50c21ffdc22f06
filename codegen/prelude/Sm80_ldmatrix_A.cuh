// Fragment of a 16 x 16 tile (PTX ISA, ldmatrix): rows 0 to 7, 8 to 15, and both again eight columns on.
__device__ __forceinline__ void Sm80_ldmatrix_A(unsigned short (&A)[8], const unsigned short* src, int ld)
{
    const int lane = threadIdx.x % 32;
    const unsigned address = smem_address(src + lane % 16 * ld + lane / 16 * 8);
    unsigned r[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        A[2 * i] = static_cast<unsigned short>(r[i]);
        A[2 * i + 1] = static_cast<unsigned short>(r[i] >> 16);
    }
}
