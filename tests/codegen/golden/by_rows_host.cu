// The CPU part of by_rows, made by exogpu.
//     nvcc -fmad=false -shared -Xcompiler -fPIC,-ffp-contract=off -gencode ... -o libby_rows.so by_rows_host.cu
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <vector>

#include "by_rows.cu"
#include "by_rows.h"

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

extern "C" int by_rows_launch(long long n, long long m, const float* x, float* y, void* stream_)
{
    [[maybe_unused]] const cudaStream_t stream = static_cast<cudaStream_t>(stream_);
    if (!fits(n))
        return EXOGPU_TOO_LARGE;
    if (!fits(m))
        return EXOGPU_TOO_LARGE;
    if (!(n >= 1))
        return EXOGPU_WRONG_SIZE;
    if (!(m >= 1))
        return EXOGPU_WRONG_SIZE;
    // 31: d: f32[n, m] @ CudaGmemLinear
    DeviceArray<float> d(stream);
    TRY(d.allocate(elements({n, m})));
    // 32: factor: f32[1]
    std::vector<float> factor;
    TRY(host_array(factor, elements({1})));
    // 33: factor[0] = 1
    factor.data()[0] = 1.0f;
    // 34: factor[0] += 1
    factor.data()[0] += 1.0f;
    // 35: for i in seq(0, n):
    for (long long i = 0; i < n; ++i) {
        // 36: cuda_memset0_1d(m, d[i, :])
        TRY(cudaMemsetAsync(&d.pointer[(long long)(i) * m], 0, (size_t)4 * m, stream));
        // 37: if i % 2 == 0:
        if (i % 2 == 0) {
            // 38: for k in seq(0, 2):
            for (long long k = 0; k < 2; ++k) {
                // 39: cuda_memcpy_to_device(m, d[i, :], x[i, :])
                TRY(cudaMemcpyAsync(&d.pointer[(long long)(i) * m], &x[(long long)(i) * m], (size_t)4 * m, cudaMemcpyHostToDevice, stream));
                // 40: with CudaDeviceFunction(blockDim=32):
                {
                    if (!fits(i))
                        return EXOGPU_TOO_LARGE;
                    if (!fits(k))
                        return EXOGPU_TOO_LARGE;
                    const long long task_count = tasks({m});
                    int sizes[] = {(int)n, (int)m, (int)i, (int)k};
                    void* arguments[] = {&sizes[0], &sizes[1], &sizes[2], &sizes[3], &d.pointer};
                    TRY(launch(by_rows_0, task_count, 1, 32, 0, arguments, stream));
                }
            }
        } else {
            // 45: with CudaDeviceFunction(blockDim=32):
            {
                if (!fits(i))
                    return EXOGPU_TOO_LARGE;
                const long long task_count = tasks({m});
                int sizes[] = {(int)n, (int)m, (int)i};
                void* arguments[] = {&sizes[0], &sizes[1], &sizes[2], &d.pointer};
                TRY(launch(by_rows_1, task_count, 1, 32, 0, arguments, stream));
            }
        }
        // 49: cuda_memcpy_to_host(m, y[i, :], d[i, :])
        TRY(cudaMemcpyAsync(&y[(long long)(i) * m], &d.pointer[(long long)(i) * m], (size_t)4 * m, cudaMemcpyDeviceToHost, stream));
    }
    TRY(d.free());
    // 50: Fence(cuda_stream_sync, cpu_in_order)
    TRY(cudaStreamSynchronize(stream));
    return 0;
}

}  // namespace exogpu_host
