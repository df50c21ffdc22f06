// The CPU part of by_rows, made by exogpu.
//     nvcc -shared -Xcompiler -fPIC -gencode ... -o libby_rows.so by_rows_host.cu
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "by_rows.cu"
#include "by_rows.h"

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

extern "C" int by_rows_launch(int n, int m, const float* x, float* y, void* stream_)
{
    [[maybe_unused]] const cudaStream_t stream = static_cast<cudaStream_t>(stream_);
    if (!(n >= 1))
        return EXOGPU_WRONG_SIZE;
    if (!(m >= 1))
        return EXOGPU_WRONG_SIZE;
    // 31: d: f32[n, m] @ CudaGmemLinear
    DeviceArray<float> d(stream);
    TRY(d.allocate((size_t)1 * n * m));
    // 32: factor: f32[1]
    std::vector<float> factor((size_t)1 * 1);
    // 33: factor[0] = 1
    factor.data()[0] = 1.0f;
    // 34: factor[0] += 1
    factor.data()[0] += 1.0f;
    // 35: for i in seq(0, n):
    for (int i = 0; i < n; ++i) {
        // 36: cuda_memset0_1d(m, d[i, :])
        TRY(cudaMemsetAsync(&d.pointer[(long long)(i) * m], 0, (size_t)4 * m, stream));
        // 37: if i % 2 == 0:
        if (i % 2 == 0) {
            // 38: for k in seq(0, 2):
            for (int k = 0; k < 2; ++k) {
                // 39: cuda_memcpy_to_device(m, d[i, :], x[i, :])
                TRY(cudaMemcpyAsync(&d.pointer[(long long)(i) * m], &x[(long long)(i) * m], (size_t)4 * m, cudaMemcpyHostToDevice, stream));
                // 40: with CudaDeviceFunction(blockDim=32):
                {
                    void* arguments[] = {&n, &m, &i, &k, &d.pointer};
                    TRY(launch(by_rows_0, 1LL * count(m), 1, 32, 0, arguments, stream));
                }
            }
        } else {
            // 45: with CudaDeviceFunction(blockDim=32):
            {
                void* arguments[] = {&n, &m, &i, &d.pointer};
                TRY(launch(by_rows_1, 1LL * count(m), 1, 32, 0, arguments, stream));
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
