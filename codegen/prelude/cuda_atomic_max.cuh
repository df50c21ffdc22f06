// The greater of an element and a number, atomically, among all threads of the GPU; orders nothing else.
template <typename T>
__device__ __forceinline__ void cuda_atomic_max(T* to, T value)
{
    atomicMax(to, value);
}
// NaN if one is: no instruction knows, so the bits are exchanged until nobody comes in between.
__device__ __forceinline__ void cuda_atomic_max(float* to, float value)
{
    unsigned* const bits = reinterpret_cast<unsigned*>(to);
    unsigned found = atomicOr(bits, 0u), before;
    do {
        before = found;
        const float greater = maximum(__uint_as_float(before), value);
        if (__float_as_uint(greater) == before)
            return;
        found = atomicCAS(bits, before, __float_as_uint(greater));
    } while (found != before);
}
