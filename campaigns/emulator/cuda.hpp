// What emitted kernels call, on the machine of `machine.hpp`.
#pragma once
#include <algorithm>

#include "machine.hpp"

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __restrict__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define threadIdx (emulated::thread_index())
#define blockIdx (emulated::block_index())
#define gridDim (emulated::grid())

using std::max;
using std::min;

struct int2 {
    int x, y;
};
inline int2 make_int2(int x, int y) { return {x, y}; }

template <typename To, typename From>
To bits(From from)
{
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
inline unsigned __float_as_uint(float value) { return bits<unsigned>(value); }
inline float __uint_as_float(unsigned value) { return bits<float>(value); }

namespace emulated {

using machine::now;
using machine::Operation;
using machine::Pending;

struct Index {
    unsigned x;
};
inline Index thread_index() { return {static_cast<unsigned>(now->self->index)}; }
inline Index block_index() { return {static_cast<unsigned>(now->first * now->cluster + now->self->cta)}; }
inline Index grid() { return {static_cast<unsigned>(now->clusters * now->cluster)}; }
inline unsigned char* shared() { return now->cta().shared; }
inline int warp() { return now->self->index / 32; }

inline Pending start(const char* what, std::vector<std::function<void()>> steps, Pending after = nullptr,
                     std::function<bool()> ready = nullptr)
{
    auto made = std::make_shared<Operation>();
    made->what = what;
    made->steps = std::move(steps);
    made->after = std::move(after);
    made->ready = std::move(ready);
    now->operations.push_back(made);
    return made;
}

// --- barriers --------------------------------------------------------------------------------

inline void meet(machine::Barrier& barrier, unsigned threads, const char* at)
{
    const unsigned mine = barrier.generation;
    if (++barrier.arrived == threads) {
        barrier.arrived = 0;
        ++barrier.generation;
    }
    now->wait(at, [&barrier, mine] { return barrier.generation != mine; });
}

inline machine::Named& come(unsigned id, unsigned threads)
{
    if (id > 15)
        now->fail("named barrier " + std::to_string(id));
    machine::Named& barrier = now->cta().named[id];
    if (!barrier.here.empty() && barrier.threads != threads)
        now->fail("two numbers of threads at a barrier of the CTA");
    if (!barrier.here.insert(now->self->index).second)
        now->fail("a thread comes twice to a phase of a barrier of the CTA");
    barrier.threads = threads;
    if (barrier.here.size() == threads) {
        barrier.here.clear();
        ++barrier.generation;
    }
    return barrier;
}

inline void cta_barrier(unsigned id, unsigned threads)
{
    const unsigned mine = now->cta().named[id].generation;
    machine::Named& barrier = come(id, threads ? threads : now->block);
    now->wait("a barrier of the CTA", [&barrier, mine] { return barrier.generation != mine; });
}

inline void cta_arrive(unsigned id, unsigned threads)
{
    come(id, threads);
    now->yield("barrier.cta.arrive");
}

inline void warp_barrier(unsigned mask)
{
    if (!(mask >> now->self->index % 32 & 1))
        now->fail("__syncwarp without the thread's own lane");
    meet(now->cta().warps[{warp(), mask}], __builtin_popcount(mask), "__syncwarp");
}

inline void cluster_arrive()
{
    machine::Barrier& all = now->whole;
    now->self->generations[0] = all.generation;
    if (++all.arrived == static_cast<unsigned>(now->cluster * now->block)) {
        all.arrived = 0;
        ++all.generation;
    }
    now->yield("barrier.cluster.arrive");
}

inline void cluster_wait()
{
    const unsigned mine = now->self->generations[0];
    now->wait("barrier.cluster.wait", [mine] { return now->whole.generation != mine; });
}

// --- mbarriers -------------------------------------------------------------------------------

inline machine::Mbarrier& mbarrier(int cta, unsigned at)
{
    auto& all = now->ctas[cta].mbarriers;
    if (!all.count(at))
        now->fail("an mbarrier that is not initialised");
    return all[at];
}

inline void settle(machine::Mbarrier& one)
{
    if (one.pending == 0 && one.bytes == 0) {
        ++one.phase;
        one.pending = one.count;
    }
}

inline void arrive(int cta, unsigned at, long long bytes = 0)
{
    if (now->ctas[cta].running == 0)
        now->fail("an arrival in a CTA that has ended");
    machine::Mbarrier& one = mbarrier(cta, at);
    if (one.pending == 0)
        now->fail("more arrivals than the phase of an mbarrier has");
    one.bytes += bytes;
    --one.pending;
    settle(one);
}

inline void complete(int cta, unsigned at, long long bytes)
{
    if (now->ctas[cta].running == 0)
        now->fail("a copy into a CTA that has ended");
    machine::Mbarrier& one = mbarrier(cta, at);
    one.bytes -= bytes;
    settle(one);
}

// --- numbers ---------------------------------------------------------------------------------

inline float half(unsigned short h)
{
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    float value = exponent == 31  ? (fraction ? NAN : INFINITY)
                  : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                  : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
    return h >> 15 ? -value : value;
}
inline float brain(unsigned short h) { return bits<float>(static_cast<unsigned>(h) << 16); }
inline float tf32(float value) { return bits<float>(bits<unsigned>(value) & 0xffffe000u); }

struct Tf32 {
    using Element = float;
    static constexpr int depth = 8;
    static float value(Element e) { return tf32(e); }
    static float right(Element e) { return tf32(e); }
};
struct F16 {
    using Element = unsigned short;
    static constexpr int depth = 16;
    static float value(Element e) { return half(e); }
    static float right(Element e) { return half(e); }
};
struct Bf16 {
    using Element = unsigned short;
    static constexpr int depth = 16;
    static float value(Element e) { return brain(e); }
    static float right(Element e) { return brain(e); }
};

struct E4m3 {
    using Element = unsigned char;
    static constexpr int depth = 32;
    static float value(Element e)
    {
        const int exponent = e >> 3 & 15, fraction = e & 7;
        const float size = (e & 127) == 127 ? NAN
                           : exponent       ? std::ldexp(static_cast<float>(fraction + 8), exponent - 10)
                                            : std::ldexp(static_cast<float>(fraction), -9);
        return e >> 7 ? -size : size;
    }
    static float right(Element e) { return value(e); }
};
struct I8 {
    using Element = signed char;
    static constexpr int depth = 32;
    static float value(Element e) { return e; }
    static float right(Element e) { return e; }
};
struct Ui8 {
    using Element = unsigned char;
    static constexpr int depth = 32;
    static float value(Element e) { return e; }
    static float right(Element e) { return e; }
};
struct E5m2 {
    using Element = unsigned char;
    static constexpr int depth = 32;
    static float value(Element e) { return half(static_cast<unsigned short>(e << 8)); }
    static float right(Element e) { return value(e); }
};

// --- warps that act together -----------------------------------------------------------------

// The lanes of a warp leave something each; the last to come acts, and all go on.
inline std::map<std::pair<int, int>, std::vector<void*>> gathered;

template <typename Act>
void together(void* mine, Act act)
{
    auto& lanes = gathered[{now->self->cta, warp()}];
    lanes.resize(32);
    lanes[now->self->index % 32] = mine;
    machine::Barrier& barrier = now->cta().warps[{warp(), 0}];
    const unsigned generation = barrier.generation;
    if (++barrier.arrived == 32) {
        act(lanes);
        barrier.arrived = 0;
        ++barrier.generation;
    }
    now->wait("an instruction of a warp", [&barrier, generation] { return barrier.generation != generation; });
    warp_barrier(0xffffffffu);
}

template <typename Combine>
int reduced(int value, Combine combine)
{
    together(&value, [&](std::vector<void*>& lanes) {
        int found = *static_cast<int*>(lanes[0]);
        for (void* lane : lanes)
            found = combine(found, *static_cast<int*>(lane));
        for (void* lane : lanes)
            *static_cast<int*>(lane) = found;
    });
    return value;
}

template <typename T>
T shuffled(T value, int from)
{
    struct Mine {
        T in, out;
        int from;
    } mine{value, value, from};
    together(&mine, [](std::vector<void*>& lanes) {
        for (void* lane : lanes) {
            Mine& one = *static_cast<Mine*>(lane);
            if (0 <= one.from && one.from < 32)
                one.out = static_cast<Mine*>(lanes[one.from])->in;
        }
    });
    return mine.out;
}

// Four matrices of 8 x 8 elements of 16 bits: lane 8 i + j has the address of row j of matrix i, and
// gets of each matrix two neighbours of row t / 4, or of a column where it is transposed.
template <bool transposed>
void ldmatrix(unsigned (&registers)[4], unsigned address)
{
    if (address % 16)
        now->fail("ldmatrix of a row at " + std::to_string(address) + ", no multiple of 16 bytes");
    struct Mine {
        unsigned* registers;
        unsigned address;
    } mine{registers, address};
    const unsigned char* memory = now->cta().shared;
    together(&mine, [memory](std::vector<void*>& lanes) {
        for (int t = 0; t < 32; ++t)
            for (int i = 0; i < 4; ++i) {
                unsigned both = 0;
                for (int half = 0; half < 2; ++half) {
                    const int row = transposed ? t % 4 * 2 + half : t / 4, column = transposed ? t / 4 : t % 4 * 2 + half;
                    unsigned short found;
                    std::memcpy(&found, memory + static_cast<Mine*>(lanes[8 * i + row])->address + 2 * column, sizeof found);
                    both |= static_cast<unsigned>(found) << 16 * half;
                }
                static_cast<Mine*>(lanes[t])->registers[i] = both;
            }
    });
}

// --- wgmma -----------------------------------------------------------------------------------

// An accumulator in flight: its registers are not what they will be.
struct Accumulator {
    std::vector<double> value;  // which holds each float and each int exactly
    int products = 0;
};
inline std::map<void*, Accumulator> in_flight;

// The sum with a product, rounded as a float, or wrapped as an int; a sentinel of what is in flight.
inline float added(float sum, float product) { return sum + product; }
inline int added(int sum, float product)
{
    return static_cast<int>(static_cast<unsigned>(sum) + static_cast<unsigned>(static_cast<int>(product)));
}
inline float unknown(float) { return NAN; }
inline int unknown(int) { return -2147483647; }

struct Call {
    void* D;
    const void* registers;
    unsigned long long A, B;
    int scale;
};

// A product of a warpgroup: it waits for all its threads' calls.
struct Product {
    std::vector<Call> calls;
    int called = 0, first = -1;
    Pending operation;
};
inline std::map<std::pair<int, int>, std::deque<std::shared_ptr<Product>>> products;
inline std::map<std::pair<int, int>, std::vector<std::size_t>> counted;

// A matrix in shared memory as hardware is told of it (PTX ISA, wgmma, matrix descriptor).
struct Matrix {
    std::size_t start, leading, stride;
    int swizzle;
};

inline Matrix matrix(unsigned long long descriptor)
{
    const auto field = [descriptor](int first) { return static_cast<std::size_t>(descriptor >> first & 0x3fff) * 16; };
    const int mode = descriptor >> 62 & 3;
    if (descriptor >> 49 & 7)
        now->fail("a matrix descriptor with a base offset");
    return {field(0), field(16), field(32), mode ? 256 >> mode : 0};
}

// Where an element is, in bytes: of the canonical layouts with a swizzle.  Of an operand that is
// K-major eight rows (m or n) of one swizzle repeat at the stride, of one that is not eight rows (k),
// and the next columns are at the leading offset.
inline std::size_t place(const Matrix& one, bool mn_major, int mn, int k, int item)
{
    const int row = one.swizzle, wide = row / item;
    if (row == 0)
        now->fail("a matrix without a swizzle");
    const std::size_t byte = mn_major ? one.start + mn / wide * one.leading + mn % wide * item + k / 8 * one.stride + k % 8 * row
                                      : one.start + mn / 8 * one.stride + mn % 8 * row + k * item;
    return byte ^ (byte >> 3 & (row - 16));
}

template <typename T>
T element(const unsigned char* shared, const Matrix& one, bool mn_major, int mn, int k)
{
    T found;
    std::memcpy(&found, shared + place(one, mn_major, mn, k, sizeof found), sizeof found);
    return found;
}

// A of 64 rows by its descriptor, or in registers, which are read when the product is.
inline unsigned long long descriptor_of(unsigned long long A) { return A; }
template <typename T>
unsigned long long descriptor_of(const T (&)[4]) { return 0; }
inline const void* registers_of(unsigned long long) { return nullptr; }
template <typename T>
const void* registers_of(const T (&A)[4]) { return A; }

template <typename Type, int N, bool a_major, bool b_major, typename Sum, typename Left>
void wgmma(Sum* D, const Left& A, unsigned long long B, int scale)
{
    using T = typename Type::Element;
    constexpr int count = N / 2;
    constexpr bool registers = std::is_array_v<Left>;
    machine::Thread* self = now->self;
    const std::pair<int, int> key{self->cta, self->index / 128};
    const int t = self->index % 128;
    auto& numbers = counted[key];
    numbers.resize(128);
    auto& queue = products[key];
    const std::size_t number = numbers[t]++;
    const Call mine_now{D, registers_of(A), descriptor_of(A), B, scale};
    if (number >= queue.size()) {
        auto made = std::make_shared<Product>();
        made->calls.resize(128);
        queue.push_back(made);
        unsigned char* memory = now->cta().shared;
        const Matrix a = matrix(mine_now.A), b = matrix(mine_now.B);
        auto act = [made, memory, a, b] {
            std::vector<float> left(64 * Type::depth), right(N * Type::depth);
            for (int n = 0; n < N; ++n)
                for (int k = 0; k < Type::depth; ++k)
                    right[n * Type::depth + k] = Type::right(element<T>(memory, b, b_major, n, k));
            if constexpr (registers) {
                for (int t = 0; t < 128; ++t)
                    for (int i = 0; i < 64 * Type::depth / 128; ++i) {
                        // Four registers: rows eight apart, then columns 16 bytes apart; in each the
                        // columns of 4 bytes.
                        constexpr int in = 4 / sizeof(T);
                        const int m = t / 32 * 16 + t % 32 / 4 + i / in % 2 * 8;
                        const int k = i / in / 2 * 4 * in + t % 4 * in + i % in;
                        left[m * Type::depth + k] = Type::value(static_cast<const T*>(made->calls[t].registers)[i]);
                    }
            } else {
                for (int m = 0; m < 64; ++m)
                    for (int k = 0; k < Type::depth; ++k)
                        left[m * Type::depth + k] = Type::value(element<T>(memory, a, a_major, m, k));
            }
            for (int t = 0; t < 128; ++t) {
                Accumulator& mine = in_flight[made->calls[t].D];
                for (int i = 0; i < count; ++i) {
                    const int m = i % 4 / 2 * 8 + t / 32 * 16 + t % 32 / 4;
                    const int n = i / 4 * 8 + t % 4 * 2 + i % 2;
                    Sum sum = made->calls[t].scale ? static_cast<Sum>(mine.value[i]) : 0;
                    for (int k = 0; k < Type::depth; ++k)
                        sum = added(sum, left[m * Type::depth + k] * right[n * Type::depth + k]);
                    mine.value[i] = sum;
                }
                if (--mine.products == 0) {
                    for (int i = 0; i < count; ++i)
                        static_cast<Sum*>(made->calls[t].D)[i] = static_cast<Sum>(mine.value[i]);
                    in_flight.erase(made->calls[t].D);
                }
            }
        };
        Pending before = number ? queue[number - 1]->operation : nullptr;
        made->operation = start("wgmma", {act}, before, [made] { return made->called == 128; });
    }
    Product& product = *queue[number];
    product.calls[t] = mine_now;
    ++product.called;
    if (product.first < 0)
        product.first = t;
    const Call& first = product.calls[product.first];
    if (first.A != mine_now.A || first.B != mine_now.B)
        now->fail("the threads of a warpgroup multiply different operands");
    Accumulator& mine = in_flight[D];
    if (mine.products++ == 0)
        mine.value.assign(D, D + count);
    for (int i = 0; i < count; ++i)
        D[i] = unknown(D[i]);
    self->products.open.push_back(product.operation);
    now->yield("wgmma");
}

// --- copies ----------------------------------------------------------------------------------

template <int N, typename T>
void cp_async(int valid, T* dst, const T* src)
{
    valid = std::max(0, std::min(valid, N));
    auto held = std::make_shared<std::vector<T>>(N, T());
    Pending made = start("cp.async",
                         {[=] { std::copy(src, src + valid, held->begin()); }, [=] { std::copy(held->begin(), held->end(), dst); }});
    now->self->copies.open.push_back(made);
    now->yield("cp.async");
}

inline void cp_async_wait_all()
{
    now->self->copies.commit();
    now->wait("cp.async.wait_all", [self = now->self] { return self->copies.finished(0); });
}

inline void arrive_after_copies(unsigned at)
{
    std::vector<Pending> before;
    for (auto& group : now->self->copies.closed)
        before.insert(before.end(), group.begin(), group.end());
    before.insert(before.end(), now->self->copies.open.begin(), now->self->copies.open.end());
    const int cta = now->self->cta;
    start("cp.async.mbarrier.arrive", {[=] { arrive(cta, at); }}, nullptr, [before] {
        for (const Pending& one : before)
            if (!one->done())
                return false;
        return true;
    });
    now->yield("cp.async.mbarrier.arrive");
}

inline void bulk_wait(unsigned n, bool sources)
{
    now->wait("cp.async.bulk.wait_group", [self = now->self, n, sources] { return self->bulk.finished(n, sources ? 1 : 0); });
}

}  // namespace emulated

// What cuTensorMapEncodeTiled takes, the innermost dimension first.
struct TensorMap {
    unsigned char* memory;
    int rank, item, swizzle, kind;  // kind: of numbers, for sums
    int tf32;  // whether loads round to it
    long long shape[5], strides[5];
    int box[5];
};

namespace emulated {

// Calls `each` with the offset of every element of a box in memory, -1 outside of it, and the place
// of the element in the box.
template <typename Each>
void elements(const TensorMap& map, const int* at, Each each)
{
    int index[5] = {};
    int total = 1;
    for (int d = 0; d < map.rank; ++d)
        total *= map.box[d];
    for (int number = 0; number < total; ++number) {
        int rest = number;
        long long offset = 0;
        bool inside = true;
        for (int d = 0; d < map.rank; ++d) {
            index[d] = rest % map.box[d];
            rest /= map.box[d];
            const long long coordinate = at[d] + static_cast<long long>(index[d]);
            inside = inside && 0 <= coordinate && coordinate < map.shape[d];
            offset += coordinate * map.strides[d];
        }
        each(inside ? offset : -1, static_cast<std::size_t>(number) * map.item);
    }
}

inline std::size_t swizzled_at(const TensorMap& map, std::size_t byte)
{
    return map.swizzle ? byte ^ (byte >> 3 & (map.swizzle - 16)) : byte;
}

// To nearest, ties to even; NaN becomes the one that the hardware has.
inline void round_tf32(unsigned char* at)
{
    unsigned bits;
    std::memcpy(&bits, at, sizeof bits);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? 0x7fffe000u : (bits + 0xfffu + (bits >> 13 & 1u)) & 0xffffe000u;
    std::memcpy(at, &bits, sizeof bits);
}

template <int ctas, int rank>
void tma_load(const void* dst, const TensorMap& map, unsigned barrier, unsigned mask, const int (&at)[rank])
{
    if (now->self->index % 32 != 0)
        return;
    if (rank != map.rank)
        now->fail("a tensor map of another rank");
    const std::size_t to = static_cast<const unsigned char*>(dst) - now->cta().shared;
    if (to % 128)
        now->fail("a box at " + std::to_string(to) + ", no multiple of 128 bytes");
    if (ctas == 1)
        mask = 1u << now->self->cta;
    std::vector<int> where(at, at + rank);
    auto held = std::make_shared<std::vector<unsigned char>>();
    std::vector<std::function<void()>> steps{[=, &map] {
        elements(map, where.data(), [&](long long offset, std::size_t place) {
            held->resize(place + map.item);
            if (offset >= 0)
                std::memcpy(held->data() + place, map.memory + offset, map.item);
            if (map.tf32)
                round_tf32(held->data() + place);
        });
    }};
    for (int cta = 0; cta < now->cluster; ++cta)
        if (mask >> cta & 1)
            steps.push_back([=, &map] {
                if (now->ctas[cta].running == 0)
                    now->fail("a copy into a CTA that has ended");
                for (std::size_t place = 0; place < held->size(); place += map.item)
                    std::memcpy(now->ctas[cta].shared + swizzled_at(map, to + place), held->data() + place, map.item);
                complete(cta, barrier, static_cast<long long>(held->size()));
            });
    start("a TMA load", steps);
    now->yield("a TMA load");
}

inline void added(unsigned char* to, const unsigned char* from, int kind)
{
    const auto add = [&](auto zero) {
        using T = decltype(zero);
        T a, b;
        std::memcpy(&a, to, sizeof a);
        std::memcpy(&b, from, sizeof b);
        a = static_cast<T>(a + b);
        std::memcpy(to, &a, sizeof a);
    };
    switch (kind) {
    case 0: return add(float());
    case 1: return add(double());
    case 2: return add(std::uint32_t());
    case 3: return add(std::uint64_t());
    case 4: return add(_Float16());
    case 5: {
        unsigned short a, b;
        std::memcpy(&a, to, sizeof a);
        std::memcpy(&b, from, sizeof b);
        const unsigned sum = bits<unsigned>(brain(a) + brain(b));
        a = static_cast<unsigned short>((sum + 0x7fff + (sum >> 16 & 1)) >> 16);
        std::memcpy(to, &a, sizeof a);
        return;
    }
    default: now->fail("a bulk reduction of a type that is not emulated");
    }
}

template <int rank>
void tma_store(const void* src, const TensorMap& map, const int (&at)[rank], bool sum)
{
    if (now->self->index % 32 != 0)
        return;
    if (rank != map.rank)
        now->fail("a tensor map of another rank");
    const int cta = now->self->cta;
    const std::size_t from = static_cast<const unsigned char*>(src) - now->cta().shared;
    if (from % 128)
        now->fail("a box at " + std::to_string(from) + ", no multiple of 128 bytes");
    std::vector<int> where(at, at + rank);
    auto held = std::make_shared<std::vector<unsigned char>>();
    Pending made = start("a bulk store",
                         {[=, &map] {
                              if (now->ctas[cta].running == 0)
                                  now->fail("a bulk store whose CTA has ended before it was read");
                              elements(map, where.data(), [&](long long, std::size_t place) {
                                  held->resize(place + map.item);
                                  std::memcpy(held->data() + place, now->ctas[cta].shared + swizzled_at(map, from + place), map.item);
                              });
                          },
                          [=, &map] {
                              elements(map, where.data(), [&](long long offset, std::size_t place) {
                                  if (offset < 0)
                                      return;
                                  if (sum)
                                      added(map.memory + offset, held->data() + place, map.kind);
                                  else
                                      std::memcpy(map.memory + offset, held->data() + place, map.item);
                              });
                          }});
    now->self->bulk.open.push_back(made);
    now->yield("a bulk store");
}

// --- launches --------------------------------------------------------------------------------

// The launches before this one, where it has begun first; they run once somebody waits for them.
inline void (*before)() = nullptr;

// Another machine runs while this one stands still.
inline void run_before()
{
    auto* const run = before;
    before = nullptr;
    auto* const standing = now;
    auto lanes = std::move(gathered);
    auto accumulators = std::move(in_flight);
    auto queues = std::move(products);
    auto numbers = std::move(counted);
    run();
    now = standing;
    gathered = std::move(lanes);
    in_flight = std::move(accumulators);
    products = std::move(queues);
    counted = std::move(numbers);
}

inline void wait_for_launches()
{
    // Where it is asked, no thread is under way.
    now->wait("griddepcontrol.wait", [] {
        if (before)
            run_before();
        return true;
    });
}

}  // namespace emulated
