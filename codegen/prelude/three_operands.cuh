// Any function of three bits, by its table: bit 4 a + 2 b + c of it (PTX ISA, lop3).
template <int table, typename T>
__host__ __device__ __forceinline__ T three_operands(T a, T b, T c)
{
    unsigned found = 0;
#ifdef __CUDA_ARCH__
    asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(found) : "r"(a), "r"(b), "r"(c), "n"(table));
#else
    for (int row = 0; row < 8; ++row)
        if (table >> row & 1)
            found |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
#endif
    return static_cast<T>(found);
}
