// The CPU part of gemm_sm80, made by exogpu.
//     nvcc -fmad=false -shared -Xcompiler -fPIC,-ffp-contract=off -gencode ... -o libgemm_sm80.so gemm_sm80_host.cu
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <vector>

#include "gemm_sm80.cu"
#include "gemm_sm80.h"

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

extern "C" int gemm_sm80_launch(long long M, long long N, long long K, const float* A, const float* B, float* C, void* stream_)
{
    [[maybe_unused]] const cudaStream_t stream = static_cast<cudaStream_t>(stream_);
    if (!fits(M))
        return EXOGPU_TOO_LARGE;
    if (!fits(N))
        return EXOGPU_TOO_LARGE;
    if (!fits(K))
        return EXOGPU_TOO_LARGE;
    if (!(M >= 1))
        return EXOGPU_WRONG_SIZE;
    if (!(N >= 1))
        return EXOGPU_WRONG_SIZE;
    if (!(K >= 1))
        return EXOGPU_WRONG_SIZE;
    if (!(K % 4 == 0))
        return EXOGPU_WRONG_SIZE;
    if (reinterpret_cast<uintptr_t>(A) % 16 != 0)
        return EXOGPU_MISALIGNED;
    if (reinterpret_cast<uintptr_t>(B) % 16 != 0)
        return EXOGPU_MISALIGNED;
    if (reinterpret_cast<uintptr_t>(C) % 16 != 0)
        return EXOGPU_MISALIGNED;
    // 29: with CudaDeviceFunction(blockDim=128):
    {
        if (!fits(wide(M) + 63))
            return EXOGPU_TOO_LARGE;
        if (!fits(wide(N) + 63))
            return EXOGPU_TOO_LARGE;
        if (!fits(wide(K) + 15))
            return EXOGPU_TOO_LARGE;
        if (!fits(16 * floor_div(wide(K) + 15, 16) + 12))
            return EXOGPU_TOO_LARGE;
        const long long task_count = tasks({(M + 63) / 64, (N + 63) / 64});
        int sizes[] = {(int)M, (int)N, (int)K};
        void* arguments[] = {&sizes[0], &sizes[1], &sizes[2], &A, &B, &C};
        TRY(launch(gemm_sm80, task_count, 1, 128, 16384, arguments, stream, {/* early */ false, /* together */ false, /* level */ true}));
    }
    return 0;
}

}  // namespace exogpu_host
