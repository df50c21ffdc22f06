"""Macros of attention: the online softmax of one step, on the accumulators of the scores."""

from __future__ import annotations

from exogpu.frontend.macros import Macro, macro
from exogpu.isa.rows import Sm90_row_max, Sm90_row_sum
from exogpu.kernels.attention_loads import Shape


def make_softmax(shape: Shape) -> tuple[Macro, Macro]:
    """`masked_softmax`, and `weigh`."""
    KEYS, scale, causal = shape.KEYS, shape.scale, shape.causal
    MASKED = -1e38 if shape.packed else -1e30  # no row's largest score, where rows have no key

    @macro
    def masked_softmax(wg, j, limit, scores, largest, total, factor, shift):
        """Exponentials relative to the largest score so far, and the sums of them."""
        if causal:
            row = limit + 64 * wg
            if KEYS * j + KEYS > row:
                for m, n in fragment(scores[wg, :, :]):
                    if KEYS * j + n > row + m:
                        scores[wg, m, n] = MASKED
        else:
            if KEYS * j + KEYS > limit:
                for m, n in fragment(scores[wg, :, :]):
                    if KEYS * j + n >= limit:
                        scores[wg, m, n] = MASKED
        Sm90_row_max(shift[wg, :, :], scores[wg, :, :], N=KEYS)
        for m in fragment(largest[wg, :, :]):
            shift[wg, m] = max(largest[wg, m], shift[wg, m])
            factor[wg, m] = exp2((largest[wg, m] - shift[wg, m]) * scale)
            largest[wg, m] = shift[wg, m]
        for m, n in fragment(scores[wg, :, :]):
            scores[wg, m, n] = exp2(fma(scores[wg, m, n], scale, largest[wg, m] * -scale))
        Sm90_row_sum(shift[wg, :, :], scores[wg, :, :], N=KEYS)
        for m in fragment(total[wg, :, :]):
            total[wg, m] = fma(total[wg, m], factor[wg, m], shift[wg, m])

    @macro
    def weigh(wg, scores, weights, result, factor):
        """The operand of the next product; what was summed before is rescaled."""
        for m, n in fragment(scores[wg, :, :]):
            weights[wg, n / 16, m, n % 16] = scores[wg, m, n]
        for m, n in fragment(result[wg, :, :]):
            result[wg, m, n] = result[wg, m, n] * factor[wg, m]
        Fence(wgmma_fence_1, wgmma_fence_2)

    return masked_softmax, weigh
