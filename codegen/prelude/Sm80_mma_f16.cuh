// D += A * B^T on one warp's tensor core (PTX ISA, mma.sync).
__device__ __forceinline__ void Sm80_mma_f16(
    float (&D)[4], const unsigned short (&A)[8], const unsigned short (&B)[4])
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])
        : "r"(A[0] | A[1] << 16), "r"(A[2] | A[3] << 16), "r"(A[4] | A[5] << 16),
          "r"(A[6] | A[7] << 16), "r"(B[0] | B[1] << 16), "r"(B[2] | B[3] << 16));
}
