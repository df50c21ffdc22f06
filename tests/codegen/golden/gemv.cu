// gemv
// Made by exogpu from gemv_f32.py; freestanding CUDA C++ for sm_90a, -fmad=false.

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
gemv(const int M, const int K, const float* __restrict__ A, const float* __restrict__ x, float* y)
{
    const int thread = threadIdx.x;
    const int warp = __shfl_sync(0xffffffffu, thread / 32, 0);
    const int lane = thread % 32;
    const int tasks_task = (M + 7) / 8;
    // 23: for task in cuda_tasks(0, (M + WARPS - 1) / WARPS):
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
                // 29: if WARPS * task + w < M:
                if (8 * task + w < M) {
                    // 30: for k in seq(0, (K + STEP - 1) / STEP):
                    for (int k = 0; k < (K + 511) / 512; ++k) {
                        // 31: a: f32[LOADS, 4]
                        float a[4][4];
                        // 32: b: f32[LOADS, 4]
                        float b[4][4];
                        // 33: for i in seq(0, LOADS):
                        #pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            // 34: if STEP * k + 128 * i + 4 * t < K:
                            if (512 * k + 128 * i + 4 * t < K) {
                                // 35: cuda_load(
                                cuda_load<4>(a[i], &A[(long long)(8 * task + w) * K + (512 * k + 128 * i + 4 * t)]);
                                // 45: cuda_load(
                                cuda_load<4>(b[i], &x[512 * k + 128 * i + 4 * t]);
                            }
                        }
                        // 54: for i in seq(0, LOADS):
                        #pragma unroll
                        for (int i = 0; i < 4; ++i) {
                            // 55: if STEP * k + 128 * i + 4 * t < K:
                            if (512 * k + 128 * i + 4 * t < K) {
                                // 56: for j in seq(0, 4):
                                #pragma unroll
                                for (int j = 0; j < 4; ++j) {
                                    // 57: part[w, t] += a[i, j] * b[i, j]
                                    part += a[i][j] * b[i][j];
                                }
                            }
                        }
                    }
                }
            }
            // 59: cuda_shfl_xor(other[w, :], part[w, :], mask=mask)
            other = __shfl_xor_sync(0xffffffffu, part, 16);
            // 60: for t in cuda_threads(0, 32, unit=cuda_thread):
            if (const int t = lane; true) {
                // 61: part[w, t] += other[w, t]
                part += other;
            }
            // 59: cuda_shfl_xor(other[w, :], part[w, :], mask=mask)
            other = __shfl_xor_sync(0xffffffffu, part, 8);
            // 60: for t in cuda_threads(0, 32, unit=cuda_thread):
            if (const int t = lane; true) {
                // 61: part[w, t] += other[w, t]
                part += other;
            }
            // 59: cuda_shfl_xor(other[w, :], part[w, :], mask=mask)
            other = __shfl_xor_sync(0xffffffffu, part, 4);
            // 60: for t in cuda_threads(0, 32, unit=cuda_thread):
            if (const int t = lane; true) {
                // 61: part[w, t] += other[w, t]
                part += other;
            }
            // 59: cuda_shfl_xor(other[w, :], part[w, :], mask=mask)
            other = __shfl_xor_sync(0xffffffffu, part, 2);
            // 60: for t in cuda_threads(0, 32, unit=cuda_thread):
            if (const int t = lane; true) {
                // 61: part[w, t] += other[w, t]
                part += other;
            }
            // 59: cuda_shfl_xor(other[w, :], part[w, :], mask=mask)
            other = __shfl_xor_sync(0xffffffffu, part, 1);
            // 60: for t in cuda_threads(0, 32, unit=cuda_thread):
            if (const int t = lane; true) {
                // 61: part[w, t] += other[w, t]
                part += other;
            }
            // 62: for t in cuda_threads(0, 32, unit=cuda_thread):
            if (const int t = lane; true) {
                // 63: if WARPS * task + w < M and t == 0:
                if (8 * task + w < M && t == 0) {
                    // 64: y[WARPS * task + w] = part[w, t]
                    y[8 * task + w] = part;
                }
            }
        }
    }
}
