// N adjacent elements into registers, by one vector load.
template <int N, typename T>
__device__ __forceinline__ void cuda_load(T* dst, const T* src)
{
    struct alignas(N * sizeof(T)) Vector {
        T element[N];
    };
    const Vector loaded = *reinterpret_cast<const Vector*>(src);
#pragma unroll
    for (int i = 0; i < N; ++i)
        dst[i] = loaded.element[i];
}
