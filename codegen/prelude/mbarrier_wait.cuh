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
