// The helper functions of emitted kernels that are PTX, in its place: same names, same parameters.
#pragma once
#include "cuda.hpp"

inline unsigned smem_address(const void* pointer)
{
    return static_cast<unsigned>(static_cast<const unsigned char*>(pointer) - emulated::shared());
}

template <typename T>
T* of_cta(T* own, int cta)
{
    if (cta < 0 || cta >= emulated::now->cluster)
        emulated::now->fail("mapa of CTA " + std::to_string(cta));
    const machine::Cta& other = emulated::now->ctas[cta];
    if (!other.begun || other.running == 0)
        emulated::now->fail("shared memory of a CTA that has not begun, or has ended");
    return reinterpret_cast<T*>(other.shared + smem_address(own));
}

template <unsigned depth>
unsigned mbarrier_at(unsigned ring, unsigned number) { return ring + 8 * (number % depth); }

inline void mbarrier_init(unsigned ring, int barriers, unsigned count)
{
    for (int i = 0; i < barriers; ++i)
        emulated::now->cta().mbarriers[ring + 8 * i] = {count, count, 0, 0};
}
template <unsigned depth>
void mbarrier_wait(unsigned ring, unsigned number)
{
    machine::Mbarrier& one = emulated::mbarrier(emulated::now->self->cta, mbarrier_at<depth>(ring, number));
    const unsigned parity = number / depth % 2;
    emulated::now->wait("mbarrier.try_wait", [&one, parity] { return one.phase % 2 != parity; });
}
template <unsigned depth>
void mbarrier_wait_cluster(unsigned ring, unsigned number) { mbarrier_wait<depth>(ring, number); }
template <unsigned depth>
void mbarrier_arrive(unsigned ring, unsigned number)
{
    emulated::arrive(emulated::now->self->cta, mbarrier_at<depth>(ring, number));
    emulated::now->yield("mbarrier.arrive");
}
template <unsigned depth>
void mbarrier_arrive_cluster(unsigned ring, unsigned number, unsigned cta)
{
    emulated::arrive(static_cast<int>(cta), mbarrier_at<depth>(ring, number));
    emulated::now->yield("mbarrier.arrive");
}
template <unsigned depth>
void mbarrier_arrive_reads(unsigned ring, unsigned number, unsigned cta) { mbarrier_arrive_cluster<depth>(ring, number, cta); }
template <unsigned depth>
void mbarrier_arrive_expect_tx(unsigned ring, unsigned number, unsigned bytes)
{
    emulated::arrive(emulated::now->self->cta, mbarrier_at<depth>(ring, number), bytes);
    emulated::now->yield("mbarrier.arrive.expect_tx");
}
template <unsigned depth>
void mbarrier_arrive_cp_async(unsigned ring, unsigned number)
{
    emulated::arrive_after_copies(mbarrier_at<depth>(ring, number));
}

inline void flag_arrive(int* flag)
{
    ++*flag;
    emulated::now->yield("red.release");
}
inline void flag_await(const int* flag, int count)
{
    emulated::now->wait("ld.acquire", [=] { return *flag >= count; });
}

template <int ctas, bool once, int rank>
void Sm90_tma_load(const void* dst, const TensorMap& map, unsigned barrier, unsigned mask, const int (&at)[rank])
{
    emulated::tma_load<ctas>(dst, map, barrier, mask, at);
}
template <int rank>
void Sm90_tma_store(const void* src, const TensorMap& map, const int (&at)[rank]) { emulated::tma_store(src, map, at, false); }
template <int rank>
void Sm90_tma_reduce(const void* src, const TensorMap& map, const int (&at)[rank]) { emulated::tma_store(src, map, at, true); }

inline void prefetch_map(const TensorMap&) {}

template <typename T>
int checked_index(T value, int lo, int hi, int line)
{
    if (value < lo || value >= hi)
        emulated::now->fail("line " + std::to_string(line) + ": " + std::to_string(value) + ", no index of " +
                            std::to_string(lo) + " .. " + std::to_string(hi - 1));
    return static_cast<int>(value);
}

template <int N, typename T>
void Sm80_cp_async_copy(T* dst, const T* src) { emulated::cp_async<N>(N, dst, src); }
template <int N, typename T>
void Sm80_cp_async_copy_zfill(int valid, T* dst, const T* src) { emulated::cp_async<N>(valid, dst, src); }

template <int M, int N>
void Sm90_store_D(int rows, int cols, float* C, int ld, float (&D)[M * N / 128])
{
    const int t = emulated::now->self->index % 128, first = t / 32 * 16 + t % 32 / 4;
    for (int i = 0; i < M * N / 128; ++i) {
        const int m = i / (N / 2) * 64 + i % 4 / 2 * 8 + first, n = i % (N / 2) / 4 * 8 + t % 4 * 2 + i % 2;
        if (m < rows && n < cols)
            C[m * static_cast<long long>(ld) + n] = D[i];
    }
}
template <int M, int N, class Pack>
void Sm90_store_pairs(int rows, int cols, unsigned short* C, int ld, float (&D)[M * N / 128], Pack pack)
{
    const int t = emulated::now->self->index % 128, first = t / 32 * 16 + t % 32 / 4;
    for (int i = 0; i < M * N / 128; ++i) {
        const int m = i / (N / 2) * 64 + i % 4 / 2 * 8 + first, n = i % (N / 2) / 4 * 8 + t % 4 * 2 + i % 2;
        if (m < rows && n < cols)
            C[m * static_cast<long long>(ld) + n] = static_cast<unsigned short>(pack(D[i], 0.0f));
    }
}
template <int M, int N>
void Sm90_stage_D(float* C, int ld, float (&D)[M * N / 128]) { Sm90_store_D<M, N>(M, N, C, ld, D); }

inline void store_two(unsigned to, float first, float second)
{
    if (to % 8)
        emulated::now->fail("st.shared.v2 at " + std::to_string(to) + ", no multiple of 8 bytes");
    const float both[2] = {first, second};
    std::memcpy(emulated::shared() + to, both, sizeof both);
}
inline void stmatrix(unsigned row, unsigned a, unsigned b, unsigned c, unsigned d)
{
    struct Mine {
        unsigned row, part[4];
    } mine{row, {a, b, c, d}};
    unsigned char* const memory = emulated::shared();
    emulated::together(&mine, [memory](std::vector<void*>& lanes) {
        for (int lane = 0; lane < 32; ++lane) {
            const unsigned to = static_cast<Mine*>(lanes[lane])->row;
            if (to % 16)
                emulated::now->fail("stmatrix at " + std::to_string(to) + ", no multiple of 16 bytes");
            for (int i = 0; i < 4; ++i)
                std::memcpy(memory + to + 4 * i, &static_cast<Mine*>(lanes[lane % 8 * 4 + i])->part[lane / 8], 4);
        }
    });
}

inline unsigned to_tf32(float value) { return (bits<unsigned>(value) + 0x1000u) & 0xffffe000u; }

namespace emulated {

// mma.sync rounds what wgmma cuts.
struct NearTf32 : Tf32 {
    static float value(Element e) { return bits<float>(to_tf32(e)); }
};

template <typename Type, int depth>
void mma(float (&D)[4], const typename Type::Element* A, const typename Type::Element* B)
{
    using T = typename Type::Element;
    struct Mine {
        float* D;
        const T *A, *B;
    } mine{D, A, B};
    together(&mine, [](std::vector<void*>& lanes) {
        float a[16][16], b[8][16];
        for (int lane = 0; lane < 32; ++lane) {
            Mine& one = *static_cast<Mine*>(lanes[lane]);
            for (int i = 0; i < depth / 2; ++i)
                if (sizeof(T) == 4)
                    a[lane / 4 + i % 2 * 8][lane % 4 + i / 2 * 4] = Type::value(one.A[i]);
                else
                    a[lane / 4 + i / 2 % 2 * 8][lane % 4 * 2 + i % 2 + i / 4 * 8] = Type::value(one.A[i]);
            for (int i = 0; i < depth / 4; ++i)
                if (sizeof(T) == 4)
                    b[lane / 4][lane % 4 + i * 4] = Type::value(one.B[i]);
                else
                    b[lane / 4][lane % 4 * 2 + i % 2 + i / 2 * 8] = Type::value(one.B[i]);
        }
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < 4; ++i) {
                float& d = static_cast<Mine*>(lanes[lane])->D[i];
                for (int k = 0; k < depth; ++k)
                    d += a[lane / 4 + i / 2 * 8][k] * b[lane % 4 * 2 + i % 2][k];
            }
    });
}

// Of bytes (PTX ISA, matrix fragments for mma.m16n8k16 and m16n8k32): a lane has four neighbours.
template <typename T, int depth>
void mma_bytes(int (&D)[4], const T (&A)[depth / 2], const T (&B)[depth / 4])
{
    struct Mine {
        int* D;
        const T *A, *B;
    } mine{D, A, B};
    together(&mine, [](std::vector<void*>& lanes) {
        int a[16][32], b[8][32];
        for (int lane = 0; lane < 32; ++lane) {
            Mine& one = *static_cast<Mine*>(lanes[lane]);
            for (int i = 0; i < depth / 2; ++i) {
                const bool upper = i < 4 || (8 <= i && i < 12);
                a[lane / 4 + (upper ? 0 : 8)][lane % 4 * 4 + (i & 3) + (i < 8 ? 0 : 16)] = one.A[i];
            }
            for (int i = 0; i < depth / 4; ++i)
                b[lane / 4][lane % 4 * 4 + (i & 3) + (i < 4 ? 0 : 16)] = one.B[i];
        }
        for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < 4; ++i) {
                unsigned sum = static_cast<Mine*>(lanes[lane])->D[i];
                for (int k = 0; k < depth; ++k)
                    sum += a[lane / 4 + i / 2 * 8][k] * b[lane % 4 * 2 + i % 2][k];
                static_cast<Mine*>(lanes[lane])->D[i] = sum;
            }
    });
}

}  // namespace emulated

inline void Sm80_mma_i8(int (&D)[4], const signed char (&A)[16], const signed char (&B)[8]) { emulated::mma_bytes<signed char, 32>(D, A, B); }
inline void Sm80_mma_i8(int (&D)[4], const signed char (&A)[8], const signed char (&B)[4]) { emulated::mma_bytes<signed char, 16>(D, A, B); }
inline void Sm80_mma_ui8(int (&D)[4], const unsigned char (&A)[16], const unsigned char (&B)[8]) { emulated::mma_bytes<unsigned char, 32>(D, A, B); }
inline void Sm80_mma_ui8(int (&D)[4], const unsigned char (&A)[8], const unsigned char (&B)[4]) { emulated::mma_bytes<unsigned char, 16>(D, A, B); }
inline void Sm80_mma_tf32(float (&D)[4], const float (&A)[4], const float (&B)[2]) { emulated::mma<emulated::NearTf32, 8>(D, A, B); }
inline void Sm80_mma_tf32(float (&D)[4], const float (&A)[2], const float (&B)[1]) { emulated::mma<emulated::NearTf32, 4>(D, A, B); }
inline void Sm80_mma_f16(float (&D)[4], const unsigned short (&A)[8], const unsigned short (&B)[4]) { emulated::mma<emulated::F16, 16>(D, A, B); }
inline void Sm80_mma_bf16(float (&D)[4], const unsigned short (&A)[8], const unsigned short (&B)[4]) { emulated::mma<emulated::Bf16, 16>(D, A, B); }

template <typename T>
void pinned(T&) {}

#define __syncthreads() emulated::cta_barrier(0, 0)
inline void __syncwarp(unsigned mask = 0xffffffffu) { emulated::warp_barrier(mask); }
template <typename T>
T __shfl_sync(unsigned, T value, int lane) { return emulated::shuffled(value, lane); }
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) { return emulated::shuffled(value, emulated::now->self->index % 32 ^ mask); }
template <typename T>
T __shfl_up_sync(unsigned, T value, unsigned delta)
{
    const int lane = emulated::now->self->index % 32, from = lane - static_cast<int>(delta);
    return emulated::shuffled(value, from < 0 ? lane : from);
}
template <typename T>
T __shfl_down_sync(unsigned, T value, unsigned delta) { return emulated::shuffled(value, emulated::now->self->index % 32 + static_cast<int>(delta)); }
inline int __reduce_max_sync(unsigned, int value) { return emulated::reduced(value, [](int a, int b) { return std::max(a, b); }); }
inline int __reduce_min_sync(unsigned, int value) { return emulated::reduced(value, [](int a, int b) { return std::min(a, b); }); }
template <typename T>
T atomicAdd(T* to, T value)
{
    const T old = *to;
    *to = old + value;
    return old;
}
template <typename T>
void cuda_atomic_add(T* to, T value)
{
    emulated::now->yield("red.add");
    atomicAdd(to, value);
}
template <typename T>
void cuda_atomic_max(T* to, T value)
{
    emulated::now->yield("red.max");
    const T old = *to;
    *to = old == 0 && value == 0 ? old + value : old > value || old != old ? old : value;
}
