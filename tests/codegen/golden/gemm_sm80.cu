// gemm_sm80
// Made by exogpu from gemm_sm80.py; freestanding CUDA C++ for sm_90a, -fmad=false.

// Every element of an accumulator fragment becomes zero.
template <int N>
__device__ __forceinline__ void Sm80_zero_D(float (&D)[N])
{
#pragma unroll
    for (int i = 0; i < N; ++i)
        D[i] = 0.0f;
}

// The address of a shared-memory object in the shared state space, as PTX takes it.
__device__ __forceinline__ unsigned smem_address(const void* pointer)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// cp.async of the first `valid` of N adjacent elements; the others become zero (src-size).
template <int N, typename T>
__device__ __forceinline__ void Sm80_cp_async_copy_zfill(int valid, T* dst, const T* src)
{
    constexpr int bytes = N * sizeof(T);
    static_assert(bytes == 4 || bytes == 8 || bytes == 16, "cp.async copies 4, 8 or 16 bytes");
    const int source = max(0, min(valid, N)) * static_cast<int>(sizeof(T));
    if constexpr (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(smem_address(dst)), "l"(src), "r"(source) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     :: "r"(smem_address(dst)), "l"(src), "n"(bytes), "r"(source) : "memory");
}

// Fragment of a 16 x K tf32 tile (PTX ISA, matrix fragments for mma.m16n8k4 and m16n8k8).
template <int M, int K>
__device__ __forceinline__ void Sm80_load_A(float (&A)[M * K / 32], const float* src, int ld)
{
    static_assert(M == 16 && (K == 4 || K == 8), "mma.sync takes 16 x 4 or 16 x 8 tf32 tiles");
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < K / 4; ++k)
#pragma unroll
        for (int m = 0; m < 2; ++m)
            A[2 * k + m] = src[(lane / 4 + 8 * m) * ld + lane % 4 + 4 * k];
}
// Fragment of a 16 x 16 tile of a 16-bit type (PTX ISA, matrix fragments for mma.m16n8k16).
template <int M, int K>
__device__ __forceinline__ void Sm80_load_A(
    unsigned short (&A)[M * K / 32], const unsigned short* src, int ld)
{
    static_assert(M == 16 && K == 16, "mma.sync takes 16 x 16 tiles of 16-bit types");
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 8; ++i)
        A[i] = src[(lane / 4 + i / 2 % 2 * 8) * ld + lane % 4 * 2 + i % 2 + i / 4 * 8];
}

// Fragment of a tf32 tile stored N x K (PTX ISA, matrix fragments for mma.m16n8k4 and m16n8k8).
template <int N, int K>
__device__ __forceinline__ void Sm80_load_B(float (&B)[N * K / 32], const float* src, int ld)
{
    static_assert(N == 8 && (K == 4 || K == 8), "mma.sync takes 8 x 4 or 8 x 8 tf32 tiles");
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < K / 4; ++k)
        B[k] = src[lane / 4 * ld + lane % 4 + 4 * k];
}
// Fragment of a tile of a 16-bit type stored N x K (PTX ISA, matrix fragments for mma.m16n8k16).
template <int N, int K>
__device__ __forceinline__ void Sm80_load_B(
    unsigned short (&B)[N * K / 32], const unsigned short* src, int ld)
{
    static_assert(N == 8 && K == 16, "mma.sync takes 8 x 16 tiles of 16-bit types");
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 4; ++i)
        B[i] = src[lane / 4 * ld + lane % 4 * 2 + i % 2 + i / 2 * 8];
}

// The bits of f32 rounded to the nearest tf32, of two equally near ones to the greater in size.
__device__ __forceinline__ unsigned to_tf32(float value)
{
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
}

// D += A * B^T on one warp's tensor core, A and B rounded to tf32 (PTX ISA, mma.sync).
__device__ __forceinline__ void Sm80_mma_tf32(float (&D)[4], const float (&A)[4], const float (&B)[2])
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])
        : "r"(to_tf32(A[0])), "r"(to_tf32(A[1])), "r"(to_tf32(A[2])), "r"(to_tf32(A[3])),
          "r"(to_tf32(B[0])), "r"(to_tf32(B[1])));
}
__device__ __forceinline__ void Sm80_mma_tf32(float (&D)[4], const float (&A)[2], const float (&B)[1])
{
    asm("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3])
        : "r"(to_tf32(A[0])), "r"(to_tf32(A[1])), "r"(to_tf32(B[0])));
}

// The first rows x cols elements of a 16 x 8 accumulator (PTX ISA, fragments of mma.m16n8k8).
__device__ __forceinline__ void Sm80_store_D(int rows, int cols, float* C, int ld, const float (&D)[4])
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int m = lane / 4 + 8 * (i / 2), n = lane % 4 * 2 + i % 2;
        if (m < rows && n < cols)
            C[static_cast<long long>(m) * ld + n] = D[i];
    }
}

// Row and column of tile `number` of rows x columns: column by column in bands of `group` rows, so
// that tiles that run together share rows and columns in the L2 cache.
__device__ __forceinline__ int2 grouped_tile(int number, int rows, int columns, int group)
{
    const int first = number / columns / group * group, height = min(group, rows - first);
    const int inside = number - first * columns;
    return make_int2(first + inside % height, inside / height);
}


extern "C" __global__ void
__launch_bounds__(128)
gemm_sm80(const int M, const int N, const int K, const float* __restrict__ A, const float* __restrict__ B, float* C)
{
    extern __shared__ __align__(1024) unsigned char smem[];
    const int thread = threadIdx.x;
    const int warp = __shfl_sync(0xffffffffu, thread / 32, 0);
    const int tasks_tm = (M + 63) / 64;
    const int tasks_tn = (N + 63) / 64;
    // 30: for tm in cuda_tasks(0, (M + 63) / 64):
    for (int task_number = blockIdx.x; task_number < tasks_tm * tasks_tn; task_number += gridDim.x) {
        const int2 tile = grouped_tile(task_number, tasks_tm, tasks_tn, 16);
        [[maybe_unused]] const int tm = tile.x;
        [[maybe_unused]] const int tn = tile.y;
        // 32: A_smem: f32[2, 64, 16] @ CudaSmemLinear
        float* const A_smem = reinterpret_cast<float*>(smem + 0);
        // 33: B_smem: f32[2, 64, 16] @ CudaSmemLinear
        float* const B_smem = reinterpret_cast<float*>(smem + 8192);
        // 34: D: f32[4, 2, 4, 16, 8] @ Sm80_RmemMatrixD(16, 8)
        float D[2][4][4];
        // 36: for w in cuda_threads(0, 4, unit=cuda_warp):
        if (const int w = warp; true) {
            // 37: for i in seq(0, 2):
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                // 38: for j in seq(0, 4):
                #pragma unroll
                for (int j = 0; j < 4; ++j) {
                    // 39: Sm80_zero_D(D[w, i, j, :, :])
                    Sm80_zero_D(D[i][j]);
                }
            }
        }
        // 40: for k in seq(0, (K + 15) / 16 + 1):
        for (int k = 0; k < (K + 15) / 16 + 1; ++k) {
            // 41: if k < (K + 15) / 16:
            if (k < (K + 15) / 16) {
                // 42: for t in cuda_threads(0, 128, unit=cuda_thread):
                if (const int t = thread; true) {
                    // 43: for r in seq(0, 2):
                    #pragma unroll
                    for (int r = 0; r < 2; ++r) {
                        // 48: if 64 * tm + 32 * r + t / 4 < M:
                        if (64 * tm + 32 * r + t / 4 < M) {
                            // 49: Sm80_cp_async_copy_zfill(
                            Sm80_cp_async_copy_zfill<4>(K - 16 * k - 4 * (t % 4), &A_smem[1024 * (k % 2) + (16 * (32 * r + t / 4) + 4 * (t % 4))], &A[(long long)(64 * tm + 32 * r + t / 4) * K + (16 * k + 4 * (t % 4))]);
                        }
                        // 63: if 64 * tn + 32 * r + t / 4 < N:
                        if (64 * tn + 32 * r + t / 4 < N) {
                            // 64: Sm80_cp_async_copy_zfill(
                            Sm80_cp_async_copy_zfill<4>(K - 16 * k - 4 * (t % 4), &B_smem[1024 * (k % 2) + (16 * (32 * r + t / 4) + 4 * (t % 4))], &B[(long long)(64 * tn + 32 * r + t / 4) * K + (16 * k + 4 * (t % 4))]);
                        }
                    }
                    // 74: Arrive(Sm80_cp_async) >> cg[t]
                    asm volatile("cp.async.commit_group;" ::: "memory");
                }
            }
            // 75: if k >= 1:
            if (k >= 1) {
                // 76: for t in cuda_threads(0, 128, unit=cuda_thread):
                if (const int t = thread; true) {
                    // 77: if k < (K + 15) / 16:
                    if (k < (K + 15) / 16) {
                        // 78: Await(cg[t], cuda_in_order, 1)
                        asm volatile("cp.async.wait_group 1;" ::: "memory");
                    } else {
                        // 80: Await(cg[t], cuda_in_order, 0)
                        asm volatile("cp.async.wait_group 0;" ::: "memory");
                    }
                }
                // 81: Fence(cuda_in_order, cuda_in_order)
                __syncthreads();
                // 82: for w in cuda_threads(0, 4, unit=cuda_warp):
                if (const int w = warp; true) {
                    // 83: for kk in seq(0, 2):
                    #pragma unroll
                    for (int kk = 0; kk < 2; ++kk) {
                        // 84: A_reg: f32[4, 2, 16, 8] @ Sm80_RmemMatrixA(16, 8)
                        float A_reg[2][4];
                        // 85: B_reg: f32[4, 4, 8, 8] @ Sm80_RmemMatrixB(8, 8)
                        float B_reg[4][2];
                        // 86: for i in seq(0, 2):
                        #pragma unroll
                        for (int i = 0; i < 2; ++i) {
                            // 87: Sm80_load_A(
                            Sm80_load_A<16, 8>(A_reg[i], &A_smem[1024 * ((k + 1) % 2) + (16 * (32 * (w / 2) + 16 * i) + 8 * kk)], 16);
                        }
                        // 95: for j in seq(0, 4):
                        #pragma unroll
                        for (int j = 0; j < 4; ++j) {
                            // 96: Sm80_load_B(
                            Sm80_load_B<8, 8>(B_reg[j], &B_smem[1024 * ((k + 1) % 2) + (16 * (32 * (w % 2) + 8 * j) + 8 * kk)], 16);
                        }
                        // 104: for i in seq(0, 2):
                        #pragma unroll
                        for (int i = 0; i < 2; ++i) {
                            // 105: for j in seq(0, 4):
                            #pragma unroll
                            for (int j = 0; j < 4; ++j) {
                                // 106: Sm80_mma_tf32(
                                Sm80_mma_tf32(D[i][j], A_reg[i], B_reg[j]);
                            }
                        }
                    }
                }
                // 111: Fence(cuda_in_order, cuda_in_order)
                __syncthreads();
            }
        }
        // 112: for w in cuda_threads(0, 4, unit=cuda_warp):
        if (const int w = warp; true) {
            // 113: for i in seq(0, 2):
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                // 114: for j in seq(0, 4):
                #pragma unroll
                for (int j = 0; j < 4; ++j) {
                    // 115: Sm80_store_D(
                    Sm80_store_D(M - 64 * tm - 32 * (w / 2) - 16 * i, N - 64 * tn - 32 * (w % 2) - 8 * j, &C[(long long)(64 * tm + 32 * (w / 2) + 16 * i) * N + (64 * tn + 32 * (w % 2) + 8 * j)], N, D[i][j]);
                }
            }
        }
    }
}
