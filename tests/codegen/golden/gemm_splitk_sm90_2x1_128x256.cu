// gemm_splitk_sm90_2x1_128x256
// Made by exogpu from gemm_splitk_sm90.py; freestanding CUDA C++ for sm_90a, -fmad=false.

// What cuTensorMapEncodeTiled fills in: a tensor's address, shape, strides, box and swizzle.
struct alignas(64) TensorMap {
    unsigned char opaque[128];
};

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

// Registers of wgmma are neither read nor written on the other side of here.
__device__ __forceinline__ void pinned(float& x) { asm volatile("" : "+f"(x) :: "memory"); }
__device__ __forceinline__ void pinned(int& x) { asm volatile("" : "+r"(x) :: "memory"); }
__device__ __forceinline__ void pinned(unsigned& x) { asm volatile("" : "+r"(x) :: "memory"); }
template <typename T, int N>
__device__ __forceinline__ void pinned(T (&x)[N])
{
#pragma unroll
    for (int i = 0; i < N; ++i)
        pinned(x[i]);
}

// Stores two numbers side by side into shared memory, at a multiple of 8 bytes (PTX ISA, st).
__device__ __forceinline__ void store_two(unsigned to, float first, float second)
{
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" :: "r"(to), "f"(first), "f"(second) : "memory");
}

// Columns `at` and on of a wgmma accumulator (PTX ISA, wgmma, register fragments) into rows of
// `swizzle` bytes of swizzled shared memory, `cols` of them; 0: into rows `ld` elements apart.
//
// Half a warp stores 8 bytes a lane in four rows.  Of two rows whose swizzle would leave them in the
// same banks one takes another group of 8 columns at a time.
template <int M, int N, int cols, int swizzle>
__device__ __forceinline__ void Sm90_stage_f32(float* C, int ld, float (&D)[M * N / 128], int at)
{
    constexpr int other = swizzle == 128 ? 2 : swizzle == 64 ? 1 : 0;
    const int t = threadIdx.x % 128, row = t / 32 * 16 + t % 32 / 4;
    const bool turned = swizzle == 128 ? row % 2 : swizzle == 64 ? row / 2 % 2 : false;
    const int pitch = swizzle ? swizzle : 4 * ld;
    const int within = swizzle ? row * swizzle >> 3 & (swizzle - 16) : 0;
    const unsigned first = smem_address(C) + row * pitch + (8 * (t % 4) ^ within ^ turned * 32 * other);
#pragma unroll
    for (int m = 0; m < M / 64; ++m)
#pragma unroll
        for (int i = 0; i < cols / 2; ++i)
            pinned(D[m * (N / 2) + at / 2 + i]);  // not read before the wait that precedes
#pragma unroll
    for (int half = 0; half < M / 32; ++half) {
        const int below = half / 2 * 64 + half % 2 * 8;
#pragma unroll
        for (int group = 0; group < cols / 8; ++group) {
            float* const own = D + half / 2 * (N / 2) + half % 2 * 2 + 4 * (at / 8 + group);
            float* const turn = D + half / 2 * (N / 2) + half % 2 * 2 + 4 * (at / 8 + (group ^ other));
            const unsigned to = swizzle ? first ^ 32 * group : first + 32 * group;
            store_two(to + below * pitch, turned ? turn[0] : own[0], turned ? turn[1] : own[1]);
        }
    }
}

// One lane of the warp adds a box of shared memory into global memory (PTX ISA, cp.reduce.async.bulk.tensor).
template <int rank>
__device__ __forceinline__ void Sm90_tma_reduce(const void* src, const TensorMap& map, const int (&at)[rank])
{
    static_assert(2 <= rank && rank <= 5, "tensor maps of 2 to 5 dimensions");
    if (threadIdx.x % 32 != 0)
        return;
    if constexpr (rank == 2)
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];"
                     :: "l"(&map), "r"(smem_address(src)), "r"(at[0]), "r"(at[1]) : "memory");
    else if constexpr (rank == 3)
        asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4}], [%1];"
                     :: "l"(&map), "r"(smem_address(src)), "r"(at[0]), "r"(at[1]), "r"(at[2]) : "memory");
    else if constexpr (rank == 4)
        asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
                     :: "l"(&map), "r"(smem_address(src)), "r"(at[0]), "r"(at[1]), "r"(at[2]),
                        "r"(at[3]) : "memory");
    else
        asm volatile("cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];"
                     :: "l"(&map), "r"(smem_address(src)), "r"(at[0]), "r"(at[1]), "r"(at[2]),
                        "r"(at[3]), "r"(at[4]) : "memory");
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

// Waits for arrival `number` on a ring that other CTAs signal (PTX ISA, mbarrier.try_wait).
template <unsigned depth>
__device__ __forceinline__ void mbarrier_wait_cluster(unsigned ring, unsigned number)
{
    constexpr bool whole = (depth & (depth - 1)) == 0;  // else numbers are below 2 * depth
    const bool second = number >= depth;
    const unsigned parity = whole ? number / depth % 2 : second;
    const unsigned barrier = ring + 8 * (whole ? number % depth : number - second * depth);
    unsigned done;
    do {
        asm volatile("{\n\t.reg .pred done;\n\t"
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], %2;\n\t"
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

// Arrives on the mbarrier of a CTA of the cluster, with reads alone to order (mbarrier.arrive).
template <unsigned depth>
__device__ __forceinline__ void mbarrier_arrive_reads(unsigned ring, unsigned number, unsigned cta)
{
    asm volatile("{\n\t.reg .b32 remote;\n\t"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n\t"
                 "mbarrier.arrive.release.cta.shared::cluster.b64 _, [remote];\n\t}"
                 :: "r"(mbarrier_at<depth>(ring, number)), "r"(cta) : "memory");
}


extern "C" __global__ void
__launch_bounds__(128)
gemm_splitk_sm90_2x1_128x256_0(const int L, const int M, const int N, const int K_split, const int cluster_K, float* C)
{
    const int thread = threadIdx.x;
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    const int tasks_batch = L;
    const int tasks_rows = (M + 3) / 4;
    const int tasks_columns = (N + 511) / 512;
    // 29: for batch in cuda_tasks(0, L):
    for (int task_number = blockIdx.x; task_number < tasks_batch * tasks_rows * tasks_columns; task_number += gridDim.x) {
        [[maybe_unused]] const int batch = task_number / tasks_columns / tasks_rows;
        [[maybe_unused]] const int rows = task_number / tasks_columns % tasks_rows;
        [[maybe_unused]] const int columns = task_number % tasks_columns;
        // 32: for t in cuda_threads(0, 128, unit=cuda_thread):
        if (const int t = thread; true) {
            // 33: none: f32[4]
            float none[4];
            // 34: for j in seq(0, 4):
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                // 35: none[j] = 0
                none[j] = 0.0f;
            }
            // 37: for i in seq(0, 4):
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                // 38: if 4 * rows + i < M and column < N:
                if (4 * rows + i < M && 512 * columns + 4 * t < N) {
                    // 39: cuda_store(
                    cuda_store<4>(&C[((long long)(batch) * M + (4 * rows + i)) * N + (512 * columns + 4 * t)], none);
                }
            }
        }
    }
}

extern "C" __global__ void __cluster_dims__(2, 1, 1)
__launch_bounds__(384, 1)
gemm_splitk_sm90_2x1_128x256_1(const int L, const int M, const int N, const int K_split, const int cluster_K, const __grid_constant__ TensorMap A_map, const __grid_constant__ TensorMap B_map, const __grid_constant__ TensorMap C_map)
{
    extern __shared__ __align__(1024) unsigned char smem[];
    const int thread = threadIdx.x;
    const int warp = __shfl_sync(0xffffffffu, thread / 32, 0);
    const int lane = thread % 32;
    const int cta = blockIdx.x % 2;
    if (thread == 0) {
        prefetch_map(A_map);
        prefetch_map(B_map);
        prefetch_map(C_map);
        mbarrier_init(smem_address(smem + 0), 8, 1);  // full
        mbarrier_init(smem_address(smem + 64), 8, 16);  // empty
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (warp < 4) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (warp < 1) {
            const int tasks_batch = L;
            const int tasks_tm = (M + 255) / 256;
            const int tasks_tn = (N + 255) / 256;
            const int tasks_s = K_split;
            unsigned full_arrived = 0;
            unsigned full_bytes = 0;
            unsigned empty_awaited = 0;
            // 147: for batch in cuda_tasks(0, L):
            for (int task_number = blockIdx.x / 2; task_number < tasks_batch * tasks_tm * tasks_tn * tasks_s; task_number += gridDim.x / 2) {
                [[maybe_unused]] const int batch = task_number / tasks_s / (tasks_tm * tasks_tn);
                const int2 tile = grouped_tile(task_number / tasks_s % (tasks_tm * tasks_tn), tasks_tm, tasks_tn, 8);
                [[maybe_unused]] const int tm = tile.x;
                [[maybe_unused]] const int tn = tile.y;
                [[maybe_unused]] const int s = task_number % tasks_s;
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
                        // 189: for m in cuda_threads(0, CM, unit=CN * cuda_warp_in_cluster):
                        if (const int m = cta; true) {
                            /* n = 0 */ {
                                // 191: Await(empty[m, n], cuda_temporal, ~RING)
                                if (empty_left > 0)
                                    --empty_left;
                                else {
                                    mbarrier_wait_cluster<8>(empty, empty_awaited - 4);
                                }
                                ++empty_awaited;
                            }
                        }
                        // 147: for m in cuda_threads(0, CM, unit=CN * cuda_warp_in_cluster):
                        if (const int m = cta; true) {
                            // 81: (
                            Sm90_tma_load<1, false>(&A_smem[4096 * (k % 4)], A_map, mbarrier_at<8>(full, full_arrived), 1, {32 * k, s, 128 * (2 * tm + m), batch});
                            full_bytes += 16384;
                        }
                        /* n = 0 */ {
                            // 81: (
                            Sm90_tma_load<2, false>(&B_smem[8192 * (k % 4)] + 4096 * cta, B_map, mbarrier_at<8>(full, full_arrived), 0x3, {32 * k, s, 256 * tn + 128 * cta, batch});
                            full_bytes += 32768;
                        }
                        // 222: for m in cuda_threads(0, CM, unit=CN * cuda_warp_in_cluster):
                        if (const int m = cta; true) {
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
                // 72: Fence(cuda_in_order, cuda_generic_and_async)
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                             "barrier.cluster.wait.acquire.aligned;" ::: "memory");
                // 154: Fence(cuda_in_order, cuda_in_order)
                asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                             "barrier.cluster.wait.acquire.aligned;" ::: "memory");
                asm volatile("fence.proxy.async.shared::cluster;" ::: "memory");
            }
        }
        else {
            const int tasks_batch = L;
            const int tasks_tm = (M + 255) / 256;
            const int tasks_tn = (N + 255) / 256;
            const int tasks_s = K_split;
            // 147: for batch in cuda_tasks(0, L):
            for (int task_number = blockIdx.x / 2; task_number < tasks_batch * tasks_tm * tasks_tn * tasks_s; task_number += gridDim.x / 2) {
                [[maybe_unused]] const int batch = task_number / tasks_s / (tasks_tm * tasks_tn);
                const int2 tile = grouped_tile(task_number / tasks_s % (tasks_tm * tasks_tn), tasks_tm, tasks_tn, 8);
                [[maybe_unused]] const int tm = tile.x;
                [[maybe_unused]] const int tn = tile.y;
                [[maybe_unused]] const int s = task_number % tasks_s;
                // 72: Fence(cuda_in_order, cuda_generic_and_async)
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                             "barrier.cluster.wait.acquire.aligned;" ::: "memory");
                // 154: Fence(cuda_in_order, cuda_in_order)
                asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                             "barrier.cluster.wait.acquire.aligned;" ::: "memory");
                asm volatile("fence.proxy.async.shared::cluster;" ::: "memory");
            }
        }
    }
    else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        {
            const int tasks_batch = L;
            const int tasks_tm = (M + 255) / 256;
            const int tasks_tn = (N + 255) / 256;
            const int tasks_s = K_split;
            unsigned full_awaited = 0;
            unsigned empty_arrived = 0;
            unsigned empty_awaited = 0;
            // 147: for batch in cuda_tasks(0, L):
            for (int task_number = blockIdx.x / 2; task_number < tasks_batch * tasks_tm * tasks_tn * tasks_s; task_number += gridDim.x / 2) {
                [[maybe_unused]] const int batch = task_number / tasks_s / (tasks_tm * tasks_tn);
                const int2 tile = grouped_tile(task_number / tasks_s % (tasks_tm * tasks_tn), tasks_tm, tasks_tn, 8);
                [[maybe_unused]] const int tm = tile.x;
                [[maybe_unused]] const int tn = tile.y;
                [[maybe_unused]] const int s = task_number % tasks_s;
                // 151: D: f32[CM, CN, groups, MM, TN] @ Sm90_RmemMatrixD(MM, TN)
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
                    // 182: for m in cuda_threads(0, CM, unit=CN * cuda_cta_in_cluster):
                    if (const int m = cta; true) {
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
                        // 226: for m in cuda_threads(0, CM, unit=CN * cuda_cta_in_cluster):
                        if (const int m = cta; true) {
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
                                if (lane < 2 && (0x3 >> lane & 1))
                                    mbarrier_arrive_reads<8>(empty, empty_arrived, lane);
                                ++empty_arrived;
                            }
                        }
                    }
                }
                // 72: Fence(cuda_in_order, cuda_generic_and_async)
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                             "barrier.cluster.wait.acquire.aligned;" ::: "memory");
                // 73: C_smem: f32[CM, CN, groups, TN / W, MM, W] @ Sm90_SmemSwizzled(4 * W)
                float* const C_smem = reinterpret_cast<float*>(smem + 1024);
                // 75: with CudaWarps(name="consumer"):
                {
                    // 76: for m in cuda_threads(0, CM, unit=CN * cuda_cta_in_cluster):
                    if (const int m = cta; true) {
                        /* n = 0 */ {
                            // 78: for wg in cuda_threads(0, groups, unit=cuda_warpgroup):
                            if (const int wg = warp / 4 - 1; true) {
                                if (thread % 128 < 32) {
                                    // 49: Fence(cuda_stream_sync, cuda_generic_and_async)
                                    asm volatile("griddepcontrol.wait;" ::: "memory");
                                    asm volatile("fence.proxy.async.global;" ::: "memory");
                                }
                                // 81: for j in seq(0, TN / W):
                                #pragma unroll
                                for (int j = 0; j < 8; ++j) {
                                    // 83: Sm90_stage_tile(
                                    Sm90_stage_f32<64, 256, 32, 128>(&C_smem[16384 * wg + 2048 * j], 32, D, 32 * j);
                                    // 92: Fence(cuda_in_order, cuda_generic_and_async)
                                    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                                    asm volatile("barrier.cta.sync.aligned %0, 128;" :: "r"(wg + 1) : "memory");
                                    if (thread % 128 < 32) {
                                        // 94: Sm90_tma_reduce(
                                        Sm90_tma_reduce(&C_smem[16384 * wg + 2048 * j], C_map, {256 * tn + 32 * j, 128 * (2 * tm + m) + 64 * wg, batch});
                                        // 102: Arrive(tma_to_gmem_async) >> done[m, n, wg]
                                        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
                                    }
                                }
                                if (thread % 128 < 32) {
                                    // 104: Await(done[m, n, wg], cuda_in_order, 0)
                                    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
                                    __syncwarp();
                                }
                            }
                        }
                    }
                }
                // 154: Fence(cuda_in_order, cuda_in_order)
                asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                             "barrier.cluster.wait.acquire.aligned;" ::: "memory");
                asm volatile("fence.proxy.async.shared::cluster;" ::: "memory");
            }
        }
    }
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
