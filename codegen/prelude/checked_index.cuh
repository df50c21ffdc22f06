// An index from memory, which must lie in lo .. hi - 1.  Else the kernel ends, after one thread has
// left value, range and line for the host, in memory of the host's if it gave any.
__device__ long long* wrong_index;
__device__ int wrong_index_told;
template <typename T>
__device__ __forceinline__ int checked_index(T value, int lo, int hi, int line)
{
    if (value < lo || value >= hi) {
        if (wrong_index != nullptr) {
            while (atomicExch(&wrong_index_told, 1) != 0) {  // who was first ends us all
            }
            const long long found[] = {value, lo, hi, line};
            for (int i = 0; i < 4; ++i)
                wrong_index[i] = found[i];
            __threadfence_system();
        }
        __trap();
    }
    return static_cast<int>(value);
}
