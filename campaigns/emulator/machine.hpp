// The machine that emulated kernels run on: threads as fibers that take turns at random, copies and
// products that happen as late as they may.  One cluster at a time, since nothing orders two tasks;
// but all CTAs of a launch together where flags do: they are then as the CTAs of one cluster.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <ucontext.h>

namespace machine {

struct Failure {
    std::string what;
};

// An asynchronous operation: steps that happen in order, each at a moment of its own.
struct Operation {
    std::vector<std::function<void()>> steps;
    std::size_t over = 0;
    std::shared_ptr<Operation> after;  // one that must be over first
    std::function<bool()> ready;       // another condition; none: always
    const char* what;
    bool done() const { return over == steps.size(); }
};
using Pending = std::shared_ptr<Operation>;

// Operations since the last commit, and the committed groups of one thread.
struct Groups {
    std::vector<Pending> open;
    std::deque<std::vector<Pending>> closed;
    void commit()
    {
        closed.push_back(open);
        open.clear();
    }
    // Whether all but the newest `n` groups have come as far as `steps` before their end.
    bool finished(std::size_t n, std::size_t but = 0) const
    {
        for (std::size_t i = 0; i + n < closed.size(); ++i)
            for (const Pending& one : closed[i])
                if (one->over + but < one->steps.size())
                    return false;
        return true;
    }
};

struct Thread {
    ucontext_t context;
    void* stack = nullptr;
    int cta = 0, index = 0;
    bool over = false;
    std::function<bool()> until;  // waits for this; none: it can go on
    const char* at = "start";
    Groups copies, bulk, products;
    std::map<unsigned, unsigned> generations;  // of warp barriers, by mask
};

struct Mbarrier {
    unsigned count = 0, pending = 0;
    long long bytes = 0;
    unsigned phase = 0;
};

struct Barrier {
    unsigned arrived = 0, generation = 0;
};

// A barrier of a CTA: all that come to a phase say how many they are, and come once.
struct Named {
    unsigned generation = 0, threads = 0;
    std::set<int> here;
};

struct Cta {
    unsigned char* shared = nullptr;
    std::map<unsigned, Mbarrier> mbarriers;
    std::map<unsigned, Named> named;
    std::map<std::pair<int, unsigned>, Barrier> warps;
    int running = 0;
    bool begun = false;
};

constexpr std::size_t STACK = 256 * 1024;

struct Machine {
    int block = 0, cluster = 1, first = 0, clusters = 1;
    std::size_t shared_bytes = 0;
    std::vector<Cta> ctas;
    std::vector<std::unique_ptr<Thread>> threads;
    std::vector<unsigned> priorities;  // of warps
    std::deque<Pending> operations;
    Barrier whole;  // of the cluster
    std::mt19937 random;
    double eager = 0.1;  // how often an operation goes on while threads can
    double fickle = 0.1;
    Thread* self = nullptr;
    ucontext_t scheduler;
    std::string failure;

    // --- threads ----------------------------------------------------------------------------

    void yield(const char* at)
    {
        Thread* mine = self;
        mine->at = at;
        swapcontext(&mine->context, &scheduler);
    }

    template <typename Condition>
    void wait(const char* at, Condition condition)
    {
        self->until = condition;
        yield(at);
    }

    void fail(const std::string& what)
    {
        if (failure.empty())
            failure = what + " (CTA " + std::to_string(self ? self->cta : -1) + ", thread " +
                      std::to_string(self ? self->index : -1) + ")";
        if (self)
            yield("failed");
    }

    Cta& cta() { return ctas[self->cta]; }

    // --- running ----------------------------------------------------------------------------

    std::function<void()> body;

    static void enter(unsigned high, unsigned low)
    {
        auto* m = reinterpret_cast<Machine*>((static_cast<std::uintptr_t>(high) << 32) | low);
        Thread* mine = m->self;
        m->ctas[mine->cta].begun = true;
        m->body();
        mine->over = true;
        if (--m->ctas[mine->cta].running == 0)
            m->ended(mine->cta);
        m->yield("end");
    }

    std::function<void(int)> ended;  // checks of a CTA that has ended

    bool step_operation()
    {
        std::vector<std::size_t> able;
        for (std::size_t i = 0; i < operations.size(); ++i) {
            Operation& one = *operations[i];
            if (one.done() || (one.after && !one.after->done()) || (one.ready && !one.ready()))
                continue;
            able.push_back(i);
        }
        if (able.empty())
            return false;
        Pending one = operations[able[random() % able.size()]];
        one->steps[one->over]();
        ++one->over;
        while (!operations.empty() && operations.front()->done())
            operations.pop_front();
        return true;
    }

    bool step_thread()
    {
        const int warps = block / 32 ? block / 32 : 1;
        std::vector<Thread*> able;
        unsigned best = 0;
        const bool any = random() % 1000 < 1000 * fickle;
        for (auto& thread : threads) {
            if (thread->over || (thread->until && !thread->until()))
                continue;
            const unsigned priority = any ? 1 : priorities[thread->cta * warps + thread->index / 32 % warps];
            if (priority > best) {
                best = priority;
                able.clear();
            }
            if (priority == best)
                able.push_back(thread.get());
        }
        if (able.empty())
            return false;
        if (random() % 64 == 0)
            for (unsigned& priority : priorities)
                priority = 1 + random() % 1000;
        self = able[random() % able.size()];
        self->until = nullptr;
        swapcontext(&scheduler, &self->context);
        self = nullptr;
        return true;
    }

    // Runs the cluster to its end.
    void run()
    {
        const auto address = reinterpret_cast<std::uintptr_t>(this);
        ctas.assign(cluster, Cta());
        for (Cta& one : ctas) {
            one.running = block;
            one.shared = static_cast<unsigned char*>(aligned_alloc(1024, (shared_bytes + 2047) / 1024 * 1024));
            std::memset(one.shared, 0xff, (shared_bytes + 2047) / 1024 * 1024);
        }
        threads.clear();
        whole = Barrier();
        for (int i = 0; i < cluster * block; ++i) {
            auto thread = std::make_unique<Thread>();
            thread->cta = i / block;
            thread->index = i % block;
            thread->stack = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            std::memset(thread->stack, 0xff, 4096);
            getcontext(&thread->context);
            thread->context.uc_stack.ss_sp = thread->stack;
            thread->context.uc_stack.ss_size = STACK;
            thread->context.uc_link = nullptr;
            makecontext(&thread->context, reinterpret_cast<void (*)()>(enter), 2,
                        static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
            threads.push_back(std::move(thread));
        }
        priorities.assign(cluster * (block / 32 ? block / 32 : 1), 1);
        for (unsigned& priority : priorities)
            priority = 1 + random() % 1000;
        for (long long steps = 0; failure.empty(); ++steps) {
            if (steps > 200000000) {
                failure = "no end in sight";
                break;
            }
            if (!operations.empty() && random() % 100000 < 100000 * eager && step_operation())
                continue;
            if (step_thread() || step_operation())
                continue;
            break;
        }
        if (failure.empty())
            for (auto& thread : threads)
                if (!thread->over) {
                    failure = "a hang: CTA " + std::to_string(thread->cta) + ", thread " +
                              std::to_string(thread->index) + " waits at " + thread->at;
                    break;
                }
        for (auto& thread : threads)
            munmap(thread->stack, STACK);
        for (Cta& one : ctas)
            free(one.shared);
        operations.clear();
    }
};

inline Machine* now = nullptr;

}  // namespace machine
