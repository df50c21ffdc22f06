// Waits for arrival `number` on a ring of mbarriers (PTX ISA, mbarrier.try_wait).
template <unsigned depth>
__device__ __forceinline__ void mbarrier_wait(unsigned ring, unsigned number)
{
    const unsigned barrier = ring + 8 * (number % depth), parity = number / depth % 2;
    unsigned done;
    do {
        asm volatile("{\n\t.reg .pred done;\n\t"
                     "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, done;\n\t}"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}
