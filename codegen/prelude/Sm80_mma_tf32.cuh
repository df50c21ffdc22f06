// D += A * B^T on one warp's tensor core, A and B rounded to tf32 (PTX ISA, mma.sync).
__device__ __forceinline__ void Sm80_mma_tf32(float (&D)[4], const float (&A)[4], const float (&B)[2])
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])
        : "r"(to_tf32(A[0])), "r"(to_tf32(A[1])), "r"(to_tf32(A[2])), "r"(to_tf32(A[3])),
          "r"(to_tf32(B[0])), "r"(to_tf32(B[1])));
}
__device__ __forceinline__ void Sm80_mma_tf32(float (&D)[4], const float (&A)[2], const float (&B)[1])
{
    asm("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])
        : "r"(to_tf32(A[0])), "r"(to_tf32(A[1])), "r"(to_tf32(B[0])));
}
