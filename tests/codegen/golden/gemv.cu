// gemv
// Made by exogpu from gemv.py; freestanding CUDA C++ for sm_90a.

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


extern "C" __global__ void
__launch_bounds__(256)
gemv(const int M, const int K, const float* __restrict__ A, const float* __restrict__ x, float* __restrict__ y)
{
    const int thread = threadIdx.x;
    const int warp = __shfl_sync(0xffffffffu, thread / 32, 0);
    const int lane = thread % 32;
    const int tasks_task = (M + 31) / 32;
    // 23: for task in cuda_tasks(0, (M + ROWS - 1) / ROWS):
    for (int task_number = blockIdx.x; task_number < tasks_task; task_number += gridDim.x) {
        [[maybe_unused]] const int task = task_number;
        // 24: part: f32[WARPS, 32]
        float part;
        // 25: other: f32[WARPS, 32]
        float other;
        // 26: for w in cuda_threads(0, WARPS, unit=cuda_warp):
        if (const int w = warp; true) {
            // 27: for t in cuda_threads(0, 32, unit=cuda_thread):
            if (const int t = lane; true) {
                // 28: part[w, t] = 0
                part = 0.0f;
                // 29: if ROWS * task + 4 * w + t / 8 < M:
                if (32 * task + 4 * w + t / 8 < M) {
                    // 30: for k in seq(0, (K + 31) / 32):
                    for (int k = 0; k < (K + 31) / 32; ++k) {
                        // 31: if 32 * k + 4 * (t % 8) < K:
                        if (32 * k + 4 * (t % 8) < K) {
                            // 32: a: f32[4]
                            float a[4];
                            // 33: b: f32[4]
                            float b[4];
                            // 34: cuda_load(
                            cuda_load<4>(a, &A[(long long)(32 * task + 4 * w + t / 8) * K + (32 * k + 4 * (t % 8))]);
                            // 41: cuda_load(
                            cuda_load<4>(b, &x[32 * k + 4 * (t % 8)]);
                            // 44: for i in seq(0, 4):
                            #pragma unroll
                            for (int i = 0; i < 4; ++i) {
                                // 45: part[w, t] += a[i] * b[i]
                                part += a[i] * b[i];
                            }
                        }
                    }
                }
            }
            // 47: cuda_shfl_xor(other[w, :], part[w, :], mask=mask)
            other = __shfl_xor_sync(0xffffffffu, part, 4);
            // 48: for t in cuda_threads(0, 32, unit=cuda_thread):
            if (const int t = lane; true) {
                // 49: part[w, t] += other[w, t]
                part += other;
            }
            // 47: cuda_shfl_xor(other[w, :], part[w, :], mask=mask)
            other = __shfl_xor_sync(0xffffffffu, part, 2);
            // 48: for t in cuda_threads(0, 32, unit=cuda_thread):
            if (const int t = lane; true) {
                // 49: part[w, t] += other[w, t]
                part += other;
            }
            // 47: cuda_shfl_xor(other[w, :], part[w, :], mask=mask)
            other = __shfl_xor_sync(0xffffffffu, part, 1);
            // 48: for t in cuda_threads(0, 32, unit=cuda_thread):
            if (const int t = lane; true) {
                // 49: part[w, t] += other[w, t]
                part += other;
            }
            // 50: for t in cuda_threads(0, 32, unit=cuda_thread):
            if (const int t = lane; true) {
                // 51: if ROWS * task + 4 * w + t / 8 < M and t % 8 == 0:
                if (32 * task + 4 * w + t / 8 < M && t % 8 == 0) {
                    // 52: y[ROWS * task + 4 * w + t / 8] = part[w, t]
                    y[32 * task + 4 * w + t / 8] = part;
                }
            }
        }
    }
}
