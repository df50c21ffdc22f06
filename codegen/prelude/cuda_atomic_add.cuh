// Adds to an element atomically, among all threads of the GPU; orders nothing else.
template <typename T>
__device__ __forceinline__ void cuda_atomic_add(T* to, T value)
{
    atomicAdd(to, value);
}
__device__ __forceinline__ void cuda_atomic_add(long long* to, long long value)
{
    atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}
