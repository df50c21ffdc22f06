// One arrival on a flag: releases, to the whole GPU, what came before.
__device__ __forceinline__ void flag_arrive(int* flag)
{
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(flag) : "memory");
}
