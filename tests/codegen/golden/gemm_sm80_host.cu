// The CPU part of gemm_sm80, made by exogpu.
//     nvcc -shared -Xcompiler -fPIC -gencode ... -o libgemm_sm80.so gemm_sm80_host.cu
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gemm_sm80.cu"
#include "gemm_sm80.h"

namespace exogpu_host {

#define TRY(call) \
    do { \
        if (const int status_ = static_cast<int>(call)) \
            return status_; \
    } while (0)

[[maybe_unused]] static int floor_div(int value, int divisor)
{
    return value / divisor - (value % divisor < 0);
}

[[maybe_unused]] static int floor_mod(int value, int divisor)
{
    return (value % divisor + divisor) % divisor;
}

// Iterations of a loop over tasks.
[[maybe_unused]] static long long count(int tasks)
{
    return tasks > 0 ? tasks : 0;
}

// As many clusters as the device holds at a time, or as there are tasks.
template <typename Kernel>
[[maybe_unused]] static int launch(Kernel* kernel, long long tasks, int cluster, int block, int shared_bytes,
                            void** arguments, cudaStream_t stream)
{
    if (tasks == 0)
        return 0;
    if (tasks > INT32_MAX)
        return EXOGPU_TOO_MANY_TASKS;
    const void* const function = reinterpret_cast<const void*>(kernel);
    TRY(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    if (cluster > 8)
        TRY(cudaFuncSetAttribute(function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = cluster;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(cluster);
    config.blockDim = dim3(block);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &attribute;
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
    config.gridDim = dim3(cluster * static_cast<int>(std::min<long long>(tasks, clusters)));
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
        return cudaMallocAsync(reinterpret_cast<void**>(&pointer), elements * sizeof(T), stream);
    }

    int free()
    {
        T* const old = pointer;
        pointer = nullptr;
        return old == nullptr ? 0 : cudaFreeAsync(old, stream);
    }
};

extern "C" int gemm_sm80_launch(int M, int N, int K, const float* A, const float* B, float* C, void* stream_)
{
    [[maybe_unused]] const cudaStream_t stream = static_cast<cudaStream_t>(stream_);
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
        void* arguments[] = {&M, &N, &K, &A, &B, &C};
        TRY(launch(gemm_sm80, 1LL * count((M + 63) / 64) * count((N + 63) / 64), 1, 128, 16384, arguments, stream));
    }
    return 0;
}

}  // namespace exogpu_host
