// The CPU part of gemm_splitk_sm90_2x1_128x256, made by exogpu.
//     nvcc -fmad=false -shared -Xcompiler -fPIC,-ffp-contract=off -gencode ... -o libgemm_splitk_sm90_2x1_128x256.so gemm_splitk_sm90_2x1_128x256_host.cu
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <vector>

#include "gemm_splitk_sm90_2x1_128x256.cu"
#include "gemm_splitk_sm90_2x1_128x256.h"

namespace exogpu_host {

#define TRY(call) \
    do { \
        if (const int status_ = static_cast<int>(call)) \
            return status_; \
    } while (0)

template <typename T>
[[maybe_unused]] static T floor_div(T value, long long divisor)
{
    return value / divisor - (value % divisor < 0);
}

template <typename T>
[[maybe_unused]] static T floor_mod(T value, long long divisor)
{
    const T rest = value % divisor;
    return rest < 0 ? rest + divisor : rest;
}

// Kernels compute indices in 32 bits; whether they can is found in 128.
[[maybe_unused]] static __int128 wide(long long value)
{
    return value;
}

[[maybe_unused]] static bool fits(__int128 value)
{
    return value >= INT32_MIN && value <= INT32_MAX;
}

// Iterations of a nest of loops over tasks: exact, or more than a launch can number.
[[maybe_unused]] static long long tasks(std::initializer_list<long long> counts)
{
    constexpr long long most = INT32_MAX + 1LL;
    long long total = 1;
    for (const long long count : counts)
        total = count > 0 ? total : 0;
    for (const long long count : counts)
        total = std::min(most, total * std::min(most, count));
    return total;
}

// Elements of an array, or as many as no memory has.
[[maybe_unused]] static size_t elements(std::initializer_list<long long> extents)
{
    constexpr __int128 most = PTRDIFF_MAX;
    __int128 total = 1;
    for (const long long extent : extents)
        total = extent > 0 ? total : 0;
    for (const long long extent : extents)
        total = std::min(most, total * extent);
    return static_cast<size_t>(total);
}

template <typename T>
[[maybe_unused]] static int host_array(std::vector<T>& array, size_t elements)
{
    try {
        array.resize(elements);
    } catch (const std::exception&) {
        return cudaErrorMemoryAllocation;
    }
    return 0;
}

// `early`: before the kernel right before it on the stream has ended, for which it waits itself.
// `together`: with all CTAs on the device at a time, since their tasks wait for each other.
// `level`: tasks share data and take equally long, so that clusters without one in the last of the
// rounds would be of no use in those before.
struct How {
    bool early = false;
    bool together = false;
    bool level = false;
};

// As many clusters as the device holds at a time, or as there are tasks.
template <typename Kernel>
[[maybe_unused]] static int launch(Kernel* kernel, long long count, int cluster, int block, int shared_bytes,
                            void** arguments, cudaStream_t stream, How how = {})
{
    if (count == 0)
        return 0;
    if (count > INT32_MAX)
        return EXOGPU_TOO_MANY_TASKS;
    const void* const function = reinterpret_cast<const void*>(kernel);
    TRY(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    if (cluster > 8)
        TRY(cudaFuncSetAttribute(function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    cudaLaunchAttribute attributes[3]{};
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim.x = cluster;
    attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(cluster);
    config.blockDim = dim3(block);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = cluster > 1;
    int clusters = 0;
    if (cluster > 1) {
        TRY(cudaOccupancyMaxActiveClusters(&clusters, function, &config));
    } else {
        int device = 0, processors = 0;
        TRY(cudaGetDevice(&device));
        TRY(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
        TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&clusters, function, block, shared_bytes));
        clusters *= processors;
    }
    if (clusters < 1)
        return cudaErrorLaunchOutOfResources;
    if (how.level) {
        const long long rounds = (count - 1) / clusters + 1;
        const long long few = (count - 1) / rounds + 1;
        if (16 * few >= 15LL * clusters)
            clusters = static_cast<int>(few);
    }
    clusters = static_cast<int>(std::min<long long>(count, clusters));
    if (count + clusters > INT32_MAX)  // a cluster's next task has a number, even if there is none
        return EXOGPU_TOO_MANY_TASKS;
    config.gridDim = dim3(cluster * clusters);
    if (how.together) {
        attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;
        attributes[config.numAttrs].val.cooperative = 1;
        ++config.numAttrs;
    }
    if (how.early) {
        attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[config.numAttrs].val.programmaticStreamSerializationAllowed = 1;
        ++config.numAttrs;
    }
    return cudaLaunchKernelExC(&config, function, arguments);
}

// Describes a whole tensor, contiguous by rows, to TMA.  The driver's function is found at run time,
// so that nothing but the CUDA runtime is linked.
template <int rank>
static int encode(TensorMap& map, const void* data, const long long (&shape)[rank],
           const unsigned (&box)[rank], int type, int item, int swizzle)
{
    using Encode = int (*)(void*, int, unsigned, void*, const uint64_t*, const uint64_t*,
                           const uint32_t*, const uint32_t*, int, int, int, int);
    static void* found = nullptr;
    if (found == nullptr) {
        cudaDriverEntryPointQueryResult result;
        TRY(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                             cudaEnableDefault, &result));
        if (found == nullptr)
            return cudaErrorNotSupported;
    }
    uint64_t extents[rank], strides[rank];
    uint32_t boxes[rank], ones[rank];
    uint64_t stride = item;
    for (int d = 0; d < rank; ++d) {  // the innermost dimension first
        extents[d] = shape[rank - 1 - d];
        if (extents[d] == 0)
            return EXOGPU_EMPTY;
        boxes[d] = box[rank - 1 - d];
        ones[d] = 1;
        stride *= extents[d];
        strides[d] = stride;
        if (d < rank - 1 && stride % 16 != 0)
            return EXOGPU_MISALIGNED;
    }
    constexpr int no_interleave = 0, promote_256 = 3, fill_zero = 0;
    return reinterpret_cast<Encode>(found)(&map, type, rank, const_cast<void*>(data), extents, strides,
                                           boxes, ones, no_interleave, swizzle, promote_256, fill_zero);
}

// Device memory of the stream's pool, given back at the end of its scope.
template <typename T>
struct DeviceArray {
    T* pointer = nullptr;
    cudaStream_t stream;

    explicit DeviceArray(cudaStream_t stream) : stream(stream) {}
    DeviceArray(const DeviceArray&) = delete;
    ~DeviceArray() { free(); }

    int allocate(size_t elements)
    {
        if (elements > PTRDIFF_MAX / sizeof(T))
            return cudaErrorMemoryAllocation;
        return cudaMallocAsync(reinterpret_cast<void**>(&pointer), elements * sizeof(T), stream);
    }

    int zero(size_t elements)
    {
        return cudaMemsetAsync(pointer, 0, elements * sizeof(T), stream);
    }

    int free()
    {
        T* const old = pointer;
        pointer = nullptr;
        return old == nullptr ? 0 : cudaFreeAsync(old, stream);
    }
};

extern "C" int gemm_splitk_sm90_2x1_128x256_launch(long long L, long long M, long long N, long long K_split, long long cluster_K, const float* A, const float* B, float* C, void* stream_)
{
    [[maybe_unused]] const cudaStream_t stream = static_cast<cudaStream_t>(stream_);
    if (!fits(L))
        return EXOGPU_TOO_LARGE;
    if (!fits(M))
        return EXOGPU_TOO_LARGE;
    if (!fits(N))
        return EXOGPU_TOO_LARGE;
    if (!fits(K_split))
        return EXOGPU_TOO_LARGE;
    if (!fits(cluster_K))
        return EXOGPU_TOO_LARGE;
    if (!(L >= 1))
        return EXOGPU_WRONG_SIZE;
    if (!(M >= 1))
        return EXOGPU_WRONG_SIZE;
    if (!(N >= 1))
        return EXOGPU_WRONG_SIZE;
    if (!(K_split >= 1))
        return EXOGPU_WRONG_SIZE;
    if (!(cluster_K >= 1))
        return EXOGPU_WRONG_SIZE;
    if (!(cluster_K % 4 == 0))
        return EXOGPU_WRONG_SIZE;
    if (!(N % 4 == 0))
        return EXOGPU_WRONG_SIZE;
    if (reinterpret_cast<uintptr_t>(A) % 16 != 0)
        return EXOGPU_MISALIGNED;
    if (reinterpret_cast<uintptr_t>(B) % 16 != 0)
        return EXOGPU_MISALIGNED;
    if (reinterpret_cast<uintptr_t>(C) % 16 != 0)
        return EXOGPU_MISALIGNED;
    [[maybe_unused]] bool launched = false;
    // 28: with CudaDeviceFunction(blockDim=128):
    {
        if (!fits(wide(M) + 3))
            return EXOGPU_TOO_LARGE;
        if (!fits(wide(N) + 511))
            return EXOGPU_TOO_LARGE;
        const long long task_count = tasks({L, (M + 3) / 4, (N + 511) / 512});
        int sizes[] = {(int)L, (int)M, (int)N, (int)K_split, (int)cluster_K};
        void* arguments[] = {&sizes[0], &sizes[1], &sizes[2], &sizes[3], &sizes[4], &C};
        TRY(launch(gemm_splitk_sm90_2x1_128x256_0, task_count, 1, 128, 0, arguments, stream));
        launched = task_count > 0;
    }
    // 146: with CudaDeviceFunction(clusterDim=CM * CN, warp_config=warps(groups), dependent=dependent):
    {
        if (!fits(wide(M) + 255))
            return EXOGPU_TOO_LARGE;
        if (!fits(wide(N) + 255))
            return EXOGPU_TOO_LARGE;
        if (!fits(wide(cluster_K) + 31))
            return EXOGPU_TOO_LARGE;
        const long long task_count = tasks({L, (M + 255) / 256, (N + 255) / 256, K_split});
        if (task_count > 0) {
            TensorMap A_map;
            TRY(encode(A_map, A, {L, M, K_split, cluster_K}, {1, 128, 1, 32}, 11, 4, 3));
            TensorMap B_map;
            TRY(encode(B_map, B, {L, N, K_split, cluster_K}, {1, 128, 1, 32}, 11, 4, 3));
            TensorMap C_map;
            TRY(encode(C_map, C, {L, M, N}, {1, 64, 32}, 7, 4, 3));
            int sizes[] = {(int)L, (int)M, (int)N, (int)K_split, (int)cluster_K};
            void* arguments[] = {&sizes[0], &sizes[1], &sizes[2], &sizes[3], &sizes[4], &A_map, &B_map, &C_map};
            TRY(launch(gemm_splitk_sm90_2x1_128x256_1, task_count, 2, 384, 197632, arguments, stream, {/* early */ launched, /* together */ false, /* level */ true}));
        }
        launched = task_count > 0;
    }
    return 0;
}

}  // namespace exogpu_host
