"""Which tokens stay in the draw: top_k, typical_p, top_p, min_p, in that order. Draws nothing.

Weights are softmax numerators after temperature, exp((logit - best) / temperature), so the best
one is 1 and the sum is not. A vocabulary is never sorted whole when a bound shows that most of it
cannot survive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from inference.engine.params import SamplingParams

BLOCK_LEN = 64  # weights are padded to whole runs of so many; their maxima bound the k-th largest
_SMALLEST = np.float32(1e-45)  # least positive float32: weights of 0 are never drawn
_LOW_32_BITS = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Tokens left and their weights (C,) f64, heaviest first, ties by id. Never empty."""

    ids: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float64]


def is_filtered(params: SamplingParams) -> bool:
    return params.top_k > 0 or params.top_p < 1 or params.min_p > 0 or params.typical_p < 1


def narrow(weights: npt.NDArray[np.float32], total: float, params: SamplingParams) -> Candidates:
    """The candidates of one row. Each filter sees the survivors of the one before, renormalised.

    Shapes: weights (P,) f32, P a multiple of BLOCK_LEN, padding 0; total is their sum.
    Sources: top_p Holtzman et al. 2020; typical_p Meister et al. 2023; min_p Nguyen et al. 2024.
    """
    if params.top_k > 0:
        left = _largest(weights, params.top_k)
        total = float(left.weights.sum())
    elif params.typical_p < 1:
        left = _heaviest_first(weights, _SMALLEST)
    elif params.top_p < 1:
        left = _nucleus_bound(weights, total, params.top_p)
    else:
        left = _heaviest_first(weights, np.float32(params.min_p))
    if params.typical_p < 1:
        left = _typical(left, params.typical_p)
        total = float(left.weights.sum())
    if params.top_p < 1:
        reached = np.cumsum(left.weights).searchsorted(params.top_p * total)
        left = _first(left, int(reached) + 1)
    if params.min_p > 0:
        enough = np.count_nonzero(left.weights >= params.min_p * left.weights[0])
        left = _first(left, max(int(enough), 1))
    return left


def _largest(weights: npt.NDArray[np.float32], k: int) -> Candidates:
    """The k heaviest. The k-th largest of the runs' maxima is at most the k-th largest weight."""
    maxima = weights.reshape(-1, BLOCK_LEN).max(axis=1)
    pool = maxima if k <= len(maxima) else weights
    bound = np.partition(pool, -k)[-k] if k <= len(pool) else _SMALLEST
    return _first(_heaviest_first(weights, max(bound, _SMALLEST)), k)


def _nucleus_bound(weights: npt.NDArray[np.float32], total: float, top_p: float) -> Candidates:
    """Few tokens that are sure to hold the nucleus.

    Tokens lighter than t weigh less than t * P together. At t = (1 - top_p) * total / P that is too
    little to matter, so the nucleus lies above t; a larger t is tried first and checked by its sum.
    """
    for num_light in (512, len(weights)):
        bound = np.float32((1.0 - top_p) * total / num_light)
        left = _heaviest_first(weights, max(bound, _SMALLEST))
        if left.weights.sum() >= top_p * total:
            break
    return left


def _typical(left: Candidates, typical_p: float) -> Candidates:
    """The tokens whose surprise is nearest to the entropy, up to typical_p of the mass."""
    probabilities = left.weights / left.weights.sum()
    surprise = -np.log(probabilities)
    entropy = float((probabilities * surprise).sum())
    order = np.abs(surprise - entropy).argsort(kind="stable")
    reached = np.cumsum(probabilities[order]).searchsorted(typical_p)
    kept = np.sort(order[: int(reached) + 1])  # heaviest first again
    return Candidates(left.ids[kept], left.weights[kept])


def _first(left: Candidates, count: int) -> Candidates:
    return Candidates(left.ids[:count], left.weights[:count])


def _heaviest_first(weights: npt.NDArray[np.float32], bound: np.float32) -> Candidates:
    """Tokens of at least that weight, sorted.

    One sort of 64-bit keys (complement of the weight's bits, then the id): positive floats order as
    their bits do, and every key is different, so the order is the same on every machine.
    """
    ids = np.flatnonzero(weights >= bound).astype(np.uint64)
    bits = ~weights[ids].view(np.uint32)
    keys = (bits.astype(np.uint64) << np.uint64(32)) | ids
    keys.sort()
    sorted_ids = (keys & _LOW_32_BITS).astype(np.int64)
    return Candidates(sorted_ids, weights[sorted_ids].astype(np.float64))
