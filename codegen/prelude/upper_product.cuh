// The upper 32 bits of a product.
__host__ __device__ __forceinline__ int upper_product(int a, int b)
{
    return static_cast<int>(static_cast<long long>(a) * b >> 32);
}
__host__ __device__ __forceinline__ unsigned upper_product(unsigned a, unsigned b)
{
    return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
