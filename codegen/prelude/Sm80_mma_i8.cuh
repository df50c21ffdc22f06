// D += A * B^T of bytes on one warp's tensor core, of K 32 and 16 (PTX ISA, mma.sync).
__device__ __forceinline__ void Sm80_mma_i8(
    int (&D)[4], const signed char (&A)[16], const signed char (&B)[8])
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(D[0]), "+r"(D[1]), "+r"(D[2]), "+r"(D[3])
        : "r"(packed_bytes(A)), "r"(packed_bytes(A + 4)), "r"(packed_bytes(A + 8)),
          "r"(packed_bytes(A + 12)), "r"(packed_bytes(B)), "r"(packed_bytes(B + 4)));
}
__device__ __forceinline__ void Sm80_mma_i8(
    int (&D)[4], const signed char (&A)[8], const signed char (&B)[4])
{
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 "
        "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+r"(D[0]), "+r"(D[1]), "+r"(D[2]), "+r"(D[3])
        : "r"(packed_bytes(A)), "r"(packed_bytes(A + 4)), "r"(packed_bytes(B)));
}
