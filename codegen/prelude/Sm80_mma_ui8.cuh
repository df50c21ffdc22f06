// D += A * B^T of bytes on one warp's tensor core, of K 32 and 16 (PTX ISA, mma.sync).
__device__ __forceinline__ void Sm80_mma_ui8(
    int (&D)[4], const unsigned char (&A)[16], const unsigned char (&B)[8])
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(D[0]), "+r"(D[1]), "+r"(D[2]), "+r"(D[3])
        : "r"(packed_bytes(A)), "r"(packed_bytes(A + 4)), "r"(packed_bytes(A + 8)),
          "r"(packed_bytes(A + 12)), "r"(packed_bytes(B)), "r"(packed_bytes(B + 4)));
}
__device__ __forceinline__ void Sm80_mma_ui8(
    int (&D)[4], const unsigned char (&A)[8], const unsigned char (&B)[4])
{
    asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32 "
        "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+r"(D[0]), "+r"(D[1]), "+r"(D[2]), "+r"(D[3])
        : "r"(packed_bytes(A)), "r"(packed_bytes(A + 4)), "r"(packed_bytes(B)));
}
