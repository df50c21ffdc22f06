// N adjacent elements from registers, by one vector store.
template <int N, typename T>
__device__ __forceinline__ void cuda_store(T* dst, const T* src)
{
    struct alignas(N * sizeof(T)) Vector {
        T element[N];
    };
    Vector stored;
#pragma unroll
    for (int i = 0; i < N; ++i)
        stored.element[i] = src[i];
    *reinterpret_cast<Vector*>(dst) = stored;
}
