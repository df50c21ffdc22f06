// A warp stores four matrices of 8 rows of 16 bytes: lane l has the address of row l % 8 of matrix
// l / 8, and 4 bytes of row l / 4 of each matrix (PTX ISA, stmatrix).
__device__ __forceinline__ void stmatrix(unsigned row, unsigned a, unsigned b, unsigned c, unsigned d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(row), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
