// gemm_sm90_1x1_128x256
// Made by exogpu from gemm_sm90.py; freestanding CUDA C++ for sm_90a, -fmad=false.

// What cuTensorMapEncodeTiled fills in: a tensor's address, shape, strides, box and swizzle.
struct alignas(64) TensorMap {
    unsigned char opaque[128];
};

// The address of a shared-memory object in the shared state space, as PTX takes it.
__device__ __forceinline__ unsigned smem_address(const void* pointer)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// One lane of the warp copies a box to shared memory (PTX ISA, cp.async.bulk.tensor); with
// several CTAs in the mask, to the same place in each, and signals the same mbarrier in each.
// What is loaded once is the first to leave the L2 cache (PTX ISA, createpolicy).
#define TMA_LOAD(dimensions, kind, more, coordinates, ...)                                      \
    asm volatile("cp.async.bulk.tensor." dimensions ".shared::cluster.global.tile"              \
                 ".mbarrier::complete_tx::bytes" kind                                           \
                 " [%0], [%1, {" coordinates "}], [%2]" more ";"                                \
                 :: "r"(to), "l"(&map), "r"(barrier), "h"(to_ctas), "l"(policy), __VA_ARGS__    \
                 : "memory")
#define TMA_LOAD_OF(dimensions, coordinates, ...)                                               \
    if constexpr (ctas == 1 && !once)                                                           \
        TMA_LOAD(dimensions, "", "", coordinates, __VA_ARGS__);                                 \
    else if constexpr (ctas == 1)                                                               \
        TMA_LOAD(dimensions, ".L2::cache_hint", ", %4", coordinates, __VA_ARGS__);              \
    else if constexpr (!once)                                                                   \
        TMA_LOAD(dimensions, ".multicast::cluster", ", %3", coordinates, __VA_ARGS__);          \
    else                                                                                        \
        TMA_LOAD(dimensions, ".multicast::cluster.L2::cache_hint", ", %3, %4", coordinates,     \
                 __VA_ARGS__)
template <int ctas, bool once, int rank>
__device__ __forceinline__ void Sm90_tma_load(
    const void* dst, const TensorMap& map, unsigned barrier, unsigned mask, const int (&at)[rank])
{
    static_assert(2 <= rank && rank <= 5, "tensor maps of 2 to 5 dimensions");
    if (threadIdx.x % 32 != 0)
        return;
    const unsigned to = smem_address(dst);
    const unsigned short to_ctas = static_cast<unsigned short>(mask);
    unsigned long long policy = 0;
    if constexpr (once)
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    if constexpr (rank == 2) {
        TMA_LOAD_OF("2d", "%5, %6", "r"(at[0]), "r"(at[1]));
    } else if constexpr (rank == 3) {
        TMA_LOAD_OF("3d", "%5, %6, %7", "r"(at[0]), "r"(at[1]), "r"(at[2]));
    } else if constexpr (rank == 4) {
        TMA_LOAD_OF("4d", "%5, %6, %7, %8", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]));
    } else {
        TMA_LOAD_OF("5d", "%5, %6, %7, %8, %9", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
                    "r"(at[4]));
    }
}
#undef TMA_LOAD_OF
#undef TMA_LOAD

// The mbarrier of arrival `number` in a ring.
template <unsigned depth>
__device__ __forceinline__ unsigned mbarrier_at(unsigned ring, unsigned number)
{
    constexpr bool whole = (depth & (depth - 1)) == 0;  // else numbers are below 2 * depth
    return ring + 8 * (whole ? number % depth : number - (number >= depth) * depth);
}

// Descriptor of a K-major matrix in swizzled shared memory, `swizzle` bytes a row: eight rows
// repeat, one after the other (PTX ISA, wgmma, matrix descriptor).
template <int swizzle>
__device__ __forceinline__ unsigned long long wgmma_descriptor(const void* matrix)
{
    static_assert(swizzle == 32 || swizzle == 64 || swizzle == 128, "rows of one swizzle");
    constexpr unsigned long long mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
    constexpr unsigned long long stride = 8 * swizzle / 16, leading = 1;
    return (smem_address(matrix) & 0x3ffff) / 16 | leading << 16 | stride << 32 | mode << 62;
}

// D += A * B^T, or D = A * B^T where scale is 0, on M x 256 accumulators of a warpgroup
// (PTX ISA, wgmma.mma_async); A and B are K-major in swizzled shared memory.
template <int M, int swizzle>
__device__ __forceinline__ void Sm90_wgmma_tf32_n256(
    float (&D)[M * 256 / 128], int& scale, const void* A, const void* B)
{
    const unsigned long long b = wgmma_descriptor<swizzle>(B);
#pragma unroll
    for (int m = 0; m < M / 64; ++m) {
        const unsigned long long a = wgmma_descriptor<swizzle>(A) + 64 * swizzle / 16 * m;
        asm volatile(
            "{\n\t.reg .pred accumulate;\n\tsetp.ne.b32 accumulate, %130, 0;\n\t"
            "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 {"
            "%0, %1, %2, %3, %4, %5, %6, %7, "
            "%8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, "
            "%24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39, "
            "%40, %41, %42, %43, %44, %45, %46, %47, "
            "%48, %49, %50, %51, %52, %53, %54, %55, "
            "%56, %57, %58, %59, %60, %61, %62, %63, "
            "%64, %65, %66, %67, %68, %69, %70, %71, "
            "%72, %73, %74, %75, %76, %77, %78, %79, "
            "%80, %81, %82, %83, %84, %85, %86, %87, "
            "%88, %89, %90, %91, %92, %93, %94, %95, "
            "%96, %97, %98, %99, %100, %101, %102, %103, "
            "%104, %105, %106, %107, %108, %109, %110, %111, "
            "%112, %113, %114, %115, %116, %117, %118, %119, "
            "%120, %121, %122, %123, %124, %125, %126, %127}, "
            "%128, %129, accumulate, 1, 1;\n\t}"
            : "+f"(D[128 * m + 0]), "+f"(D[128 * m + 1]), "+f"(D[128 * m + 2]), "+f"(D[128 * m + 3]),
              "+f"(D[128 * m + 4]), "+f"(D[128 * m + 5]), "+f"(D[128 * m + 6]), "+f"(D[128 * m + 7]),
              "+f"(D[128 * m + 8]), "+f"(D[128 * m + 9]), "+f"(D[128 * m + 10]), "+f"(D[128 * m + 11]),
              "+f"(D[128 * m + 12]), "+f"(D[128 * m + 13]), "+f"(D[128 * m + 14]), "+f"(D[128 * m + 15]),
              "+f"(D[128 * m + 16]), "+f"(D[128 * m + 17]), "+f"(D[128 * m + 18]), "+f"(D[128 * m + 19]),
              "+f"(D[128 * m + 20]), "+f"(D[128 * m + 21]), "+f"(D[128 * m + 22]), "+f"(D[128 * m + 23]),
              "+f"(D[128 * m + 24]), "+f"(D[128 * m + 25]), "+f"(D[128 * m + 26]), "+f"(D[128 * m + 27]),
              "+f"(D[128 * m + 28]), "+f"(D[128 * m + 29]), "+f"(D[128 * m + 30]), "+f"(D[128 * m + 31]),
              "+f"(D[128 * m + 32]), "+f"(D[128 * m + 33]), "+f"(D[128 * m + 34]), "+f"(D[128 * m + 35]),
              "+f"(D[128 * m + 36]), "+f"(D[128 * m + 37]), "+f"(D[128 * m + 38]), "+f"(D[128 * m + 39]),
              "+f"(D[128 * m + 40]), "+f"(D[128 * m + 41]), "+f"(D[128 * m + 42]), "+f"(D[128 * m + 43]),
              "+f"(D[128 * m + 44]), "+f"(D[128 * m + 45]), "+f"(D[128 * m + 46]), "+f"(D[128 * m + 47]),
              "+f"(D[128 * m + 48]), "+f"(D[128 * m + 49]), "+f"(D[128 * m + 50]), "+f"(D[128 * m + 51]),
              "+f"(D[128 * m + 52]), "+f"(D[128 * m + 53]), "+f"(D[128 * m + 54]), "+f"(D[128 * m + 55]),
              "+f"(D[128 * m + 56]), "+f"(D[128 * m + 57]), "+f"(D[128 * m + 58]), "+f"(D[128 * m + 59]),
              "+f"(D[128 * m + 60]), "+f"(D[128 * m + 61]), "+f"(D[128 * m + 62]), "+f"(D[128 * m + 63]),
              "+f"(D[128 * m + 64]), "+f"(D[128 * m + 65]), "+f"(D[128 * m + 66]), "+f"(D[128 * m + 67]),
              "+f"(D[128 * m + 68]), "+f"(D[128 * m + 69]), "+f"(D[128 * m + 70]), "+f"(D[128 * m + 71]),
              "+f"(D[128 * m + 72]), "+f"(D[128 * m + 73]), "+f"(D[128 * m + 74]), "+f"(D[128 * m + 75]),
              "+f"(D[128 * m + 76]), "+f"(D[128 * m + 77]), "+f"(D[128 * m + 78]), "+f"(D[128 * m + 79]),
              "+f"(D[128 * m + 80]), "+f"(D[128 * m + 81]), "+f"(D[128 * m + 82]), "+f"(D[128 * m + 83]),
              "+f"(D[128 * m + 84]), "+f"(D[128 * m + 85]), "+f"(D[128 * m + 86]), "+f"(D[128 * m + 87]),
              "+f"(D[128 * m + 88]), "+f"(D[128 * m + 89]), "+f"(D[128 * m + 90]), "+f"(D[128 * m + 91]),
              "+f"(D[128 * m + 92]), "+f"(D[128 * m + 93]), "+f"(D[128 * m + 94]), "+f"(D[128 * m + 95]),
              "+f"(D[128 * m + 96]), "+f"(D[128 * m + 97]), "+f"(D[128 * m + 98]), "+f"(D[128 * m + 99]),
              "+f"(D[128 * m + 100]), "+f"(D[128 * m + 101]), "+f"(D[128 * m + 102]), "+f"(D[128 * m + 103]),
              "+f"(D[128 * m + 104]), "+f"(D[128 * m + 105]), "+f"(D[128 * m + 106]), "+f"(D[128 * m + 107]),
              "+f"(D[128 * m + 108]), "+f"(D[128 * m + 109]), "+f"(D[128 * m + 110]), "+f"(D[128 * m + 111]),
              "+f"(D[128 * m + 112]), "+f"(D[128 * m + 113]), "+f"(D[128 * m + 114]), "+f"(D[128 * m + 115]),
              "+f"(D[128 * m + 116]), "+f"(D[128 * m + 117]), "+f"(D[128 * m + 118]), "+f"(D[128 * m + 119]),
              "+f"(D[128 * m + 120]), "+f"(D[128 * m + 121]), "+f"(D[128 * m + 122]), "+f"(D[128 * m + 123]),
              "+f"(D[128 * m + 124]), "+f"(D[128 * m + 125]), "+f"(D[128 * m + 126]), "+f"(D[128 * m + 127])
            : "l"(a), "l"(b), "r"(scale) : "memory");
    }
    scale = 1;
}

// The first rows x cols elements of a wgmma accumulator (PTX ISA, wgmma, register fragments).
template <int M, int N>
__device__ __forceinline__ void Sm90_store_D(
    int rows, int cols, float* C, int ld, float (&D)[M * N / 128])
{
#pragma unroll
    for (int i = 0; i < M * N / 128; ++i)
        asm volatile("" : "+f"(D[i]) :: "memory");  // not read before the wait that precedes
    const int t = threadIdx.x % 128, first = t / 32 * 16 + t % 32 / 4;
    if (N % 16 == 0 && ld % 4 == 0 && reinterpret_cast<unsigned long long>(C) % 16 == 0
        && (cols >= N || cols % 4 == 0)) {
        // Two lanes exchange halves of two 8-column groups: each stores 16 bytes of one group.
        const bool odd = t % 2;
        const int column = 8 * odd + t % 4 / 2 * 4;
        float* const row = C + first * static_cast<long long>(ld) + column;
#pragma unroll
        for (int half = 0; half < M / 32; ++half) {
            const int m = half / 2 * 64 + half % 2 * 8;
            float* const to = row + m * static_cast<long long>(ld);
#pragma unroll
            for (int j = 0; j < N / 8; j += 2) {
                const float* const own = D + half / 2 * (N / 2) + 4 * j + half % 2 * 2;
                float x = odd ? own[0] : own[4], y = odd ? own[1] : own[5];
                asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;" : "+f"(x));
                asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;" : "+f"(y));
                const float4 v = odd ? make_float4(x, y, own[4], own[5])
                                     : make_float4(own[0], own[1], x, y);
                if (m + first < rows && column + 8 * j < cols)
                    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};"
                                 :: "l"(to + 8 * j), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
            }
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < M * N / 128; ++i) {
        const int m = i / (N / 2) * 64 + i % 4 / 2 * 8 + first;
        const int n = i % (N / 2) / 4 * 8 + t % 4 * 2 + i % 2;
        if (m < rows && n < cols)
            C[m * static_cast<long long>(ld) + n] = D[i];
    }
}

// Brings a tensor map near, before the first copy asks for it (PTX ISA, prefetch.tensormap).
__device__ __forceinline__ void prefetch_map(const TensorMap& map)
{
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
}

// Initialises `barriers` adjacent mbarriers; `count` arrivals complete a phase (mbarrier.init).
__device__ __forceinline__ void mbarrier_init(unsigned ring, int barriers, unsigned count)
{
    for (int i = 0; i < barriers; ++i)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(ring + 8 * i), "r"(count) : "memory");
}

// Row and column of tile `number` of rows x columns: column by column in bands of `group` rows, so
// that tiles that run together share rows and columns in the L2 cache.
__device__ __forceinline__ int2 grouped_tile(int number, int rows, int columns, int group)
{
    const int first = number / columns / group * group, height = min(group, rows - first);
    const int inside = number - first * columns;
    return make_int2(first + inside % height, inside / height);
}

// Waits for arrival `number` on a ring of mbarriers (PTX ISA, mbarrier.try_wait).
template <unsigned depth>
__device__ __forceinline__ void mbarrier_wait(unsigned ring, unsigned number)
{
    constexpr bool whole = (depth & (depth - 1)) == 0;  // else numbers are below 2 * depth
    const bool second = number >= depth;
    const unsigned parity = whole ? number / depth % 2 : second;
    const unsigned barrier = ring + 8 * (whole ? number % depth : number - second * depth);
    unsigned done;
    do {
        asm volatile("{\n\t.reg .pred done;\n\t"
                     "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, done;\n\t}"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}

// Arrives, and tells how many bytes the phase waits for (PTX ISA, mbarrier.arrive.expect_tx).
template <unsigned depth>
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned ring, unsigned number, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;"
                 :: "r"(mbarrier_at<depth>(ring, number)), "r"(bytes) : "memory");
}

// Arrives on the mbarrier of arrival `number` in a ring (PTX ISA, mbarrier.arrive).
template <unsigned depth>
__device__ __forceinline__ void mbarrier_arrive(unsigned ring, unsigned number)
{
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];"
                 :: "r"(mbarrier_at<depth>(ring, number)) : "memory");
}


extern "C" __global__ void
__launch_bounds__(384, 1)
gemm_sm90_1x1_128x256(const int L, const int M, const int N, const int cluster_K, float* C, const __grid_constant__ TensorMap A_map, const __grid_constant__ TensorMap B_map)
{
    extern __shared__ __align__(1024) unsigned char smem[];
    const int thread = threadIdx.x;
    const int warp = __shfl_sync(0xffffffffu, thread / 32, 0);
    const int lane = thread % 32;
    if (thread == 0) {
        prefetch_map(A_map);
        prefetch_map(B_map);
        mbarrier_init(smem_address(smem + 0), 8, 1);  // full
        mbarrier_init(smem_address(smem + 64), 8, 8);  // empty
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cluster;" ::: "memory");
    }
    __syncthreads();
    if (warp < 4) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (warp < 1) {
            const int tasks_batch = L;
            const int tasks_tm = (M + 127) / 128;
            const int tasks_tn = (N + 255) / 256;
            unsigned full_arrived = 0;
            unsigned full_bytes = 0;
            unsigned empty_awaited = 0;
            // 335: for batch in cuda_tasks(0, L):
            for (int task_number = blockIdx.x; task_number < tasks_batch * tasks_tm * tasks_tn; task_number += gridDim.x) {
                [[maybe_unused]] const int batch = task_number / (tasks_tm * tasks_tn);
                const int2 tile = grouped_tile(task_number % (tasks_tm * tasks_tn), tasks_tm, tasks_tn, 16);
                [[maybe_unused]] const int tm = tile.x;
                [[maybe_unused]] const int tn = tile.y;
                // 263: A_smem: dtype[CM, CN, RING, TM, TK] @ Sm90_SmemSwizzled(128)
                float* const A_smem = reinterpret_cast<float*>(smem + 1024);
                // 264: B_smem: dtype[CM, CN, RING, TN, TK] @ Sm90_SmemSwizzled(128)
                float* const B_smem = reinterpret_cast<float*>(smem + 66560);
                // 265: full: barrier[CM, CN] @ CudaMbarrier
                const unsigned full = smem_address(smem + 0);
                // 266: empty: barrier(full)[CM, CN] @ CudaMbarrier
                const unsigned empty = smem_address(smem + 64);
                unsigned empty_left = 4;
                // 187: for k in seq(0, steps):
                for (int k = 0; k < (cluster_K + 31) / 32; ++k) {
                    // 188: with CudaWarps(0, 1, name="producer"):
                    {
                        /* m = 0 */ {
                            /* n = 0 */ {
                                // 191: Await(empty[m, n], cuda_temporal, ~RING)
                                if (empty_left > 0)
                                    --empty_left;
                                else {
                                    mbarrier_wait<8>(empty, empty_awaited - 4);
                                }
                                ++empty_awaited;
                            }
                        }
                        /* m = 0 */ {
                            // 81: (
                            Sm90_tma_load<1, false>(&A_smem[4096 * (k % 4)], A_map, mbarrier_at<8>(full, full_arrived), 1, {32 * k, 128 * tm, batch});
                            full_bytes += 16384;
                        }
                        /* n = 0 */ {
                            // 81: (
                            Sm90_tma_load<1, false>(&B_smem[8192 * (k % 4)], B_map, mbarrier_at<8>(full, full_arrived), 1, {32 * k, 256 * tn, batch});
                            full_bytes += 32768;
                        }
                        /* m = 0 */ {
                            /* n = 0 */ {
                                // 224: Arrive(cuda_temporal) >> full[m, n]
                                __syncwarp();
                                if (lane == 0)
                                    mbarrier_arrive_expect_tx<8>(full, full_arrived, full_bytes);
                                full_bytes = 0;
                                ++full_arrived;
                            }
                        }
                    }
                }
                // 341: Fence(cuda_in_order, cuda_in_order)
                asm volatile("barrier.cta.sync 0;" ::: "memory");
            }
        }
        else {
            const int tasks_batch = L;
            const int tasks_tm = (M + 127) / 128;
            const int tasks_tn = (N + 255) / 256;
            // 335: for batch in cuda_tasks(0, L):
            for (int task_number = blockIdx.x; task_number < tasks_batch * tasks_tm * tasks_tn; task_number += gridDim.x) {
                [[maybe_unused]] const int batch = task_number / (tasks_tm * tasks_tn);
                const int2 tile = grouped_tile(task_number % (tasks_tm * tasks_tn), tasks_tm, tasks_tn, 16);
                [[maybe_unused]] const int tm = tile.x;
                [[maybe_unused]] const int tn = tile.y;
                // 341: Fence(cuda_in_order, cuda_in_order)
                asm volatile("barrier.cta.sync 0;" ::: "memory");
            }
        }
    }
    else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        {
            const int tasks_batch = L;
            const int tasks_tm = (M + 127) / 128;
            const int tasks_tn = (N + 255) / 256;
            unsigned full_awaited = 0;
            unsigned empty_arrived = 0;
            unsigned empty_awaited = 0;
            // 335: for batch in cuda_tasks(0, L):
            for (int task_number = blockIdx.x; task_number < tasks_batch * tasks_tm * tasks_tn; task_number += gridDim.x) {
                [[maybe_unused]] const int batch = task_number / (tasks_tm * tasks_tn);
                const int2 tile = grouped_tile(task_number % (tasks_tm * tasks_tn), tasks_tm, tasks_tn, 16);
                [[maybe_unused]] const int tm = tile.x;
                [[maybe_unused]] const int tn = tile.y;
                // 338: D: f32[CM, CN, groups, MM, TN] @ Sm90_RmemMatrixD(MM, TN)
                float D[128];
                int D_scale = 1;
                // 263: A_smem: dtype[CM, CN, RING, TM, TK] @ Sm90_SmemSwizzled(128)
                float* const A_smem = reinterpret_cast<float*>(smem + 1024);
                // 264: B_smem: dtype[CM, CN, RING, TN, TK] @ Sm90_SmemSwizzled(128)
                float* const B_smem = reinterpret_cast<float*>(smem + 66560);
                // 265: full: barrier[CM, CN] @ CudaMbarrier
                const unsigned full = smem_address(smem + 0);
                // 266: empty: barrier(full)[CM, CN] @ CudaMbarrier
                const unsigned empty = smem_address(smem + 64);
                unsigned empty_left = 4;
                // 181: with CudaWarps(name="consumer"):
                {
                    /* m = 0 */ {
                        /* n = 0 */ {
                            // 184: for wg in cuda_threads(0, groups, unit=cuda_warpgroup):
                            if (const int wg = warp / 4 - 1; true) {
                                // 185: Sm90_zero_scale_d(D[m, n, wg, :, :], M=MM, N=TN)
                                D_scale = 0;
                                // 186: Fence(wgmma_fence_1, wgmma_fence_2)
                                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
                            }
                        }
                    }
                }
                // 187: for k in seq(0, steps):
                for (int k = 0; k < (cluster_K + 31) / 32; ++k) {
                    // 225: with CudaWarps(name="consumer"):
                    {
                        /* m = 0 */ {
                            /* n = 0 */ {
                                // 228: Await(full[m, n], cuda_generic_and_async, ~0)
                                mbarrier_wait<8>(full, full_awaited);
                                ++full_awaited;
                                // 229: for wg in cuda_threads(0, groups, unit=cuda_warpgroup):
                                if (const int wg = warp / 4 - 1; true) {
                                    // 159: for kk in seq(0, 4):
                                    #pragma unroll
                                    for (int kk = 0; kk < 4; ++kk) {
                                        // 161: Sm90_wgmma_tf32(
                                        Sm90_wgmma_tf32_n256<64, 128>(D, D_scale, &A_smem[4096 * (k % 4) + (2048 * wg + 8 * kk)], &B_smem[8192 * (k % 4) + 8 * kk]);
                                    }
                                    // 242: Arrive(wgmma_async) >> cg[m, n, wg]
                                    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                                    // 243: Await(cg[m, n, wg], cuda_in_order, int(overlapped))
                                    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
                                }
                                // 248: Arrive(cuda_in_order) >> empty[m, :] >> empty[:, n]
                                __syncwarp();
                                if (lane == 0)
                                    mbarrier_arrive<8>(empty, empty_arrived);
                                ++empty_arrived;
                            }
                        }
                    }
                }
                // 341: Fence(cuda_in_order, cuda_in_order)
                asm volatile("barrier.cta.sync 0;" ::: "memory");
                // 19: with CudaWarps(name="consumer"):
                {
                    /* m = 0 */ {
                        /* n = 0 */ {
                            // 22: for wg in cuda_threads(0, groups, unit=cuda_warpgroup):
                            if (const int wg = warp / 4 - 1; true) {
                                // 26: Sm90_store_D(
                                Sm90_store_D<64, 256>(M - (128 * tm + 64 * wg), N - 256 * tn, &C[((long long)(batch) * M + (128 * tm + 64 * wg)) * N + (256 * tn)], N, D);
                            }
                        }
                    }
                }
            }
        }
    }
}
