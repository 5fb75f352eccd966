"""Which tokens stay in the draw: top_k, typical_p, top_p, min_p, in that order. Draws nothing.

Weights are softmax numerators after temperature, exp((logit - best) / temperature): the best one is
1, the sum is not. A vocabulary is never sorted: bounds that are cheap to find leave few tokens, and
of those only the ones that tie at the edge of a filter are put in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from inference.engine.selection import heaviest, heaviest_mass, largest_bound

if TYPE_CHECKING:
    import numpy.typing as npt

    from inference.engine.params import SamplingParams

_SMALLEST = np.float32(1e-45)  # the least positive float32: tokens of weight 0 are never drawn
_LIGHT_TOKENS = 512  # top_p's first guess at how many light tokens matter


@dataclass(frozen=True, eq=False)
class Candidates:
    """Tokens left, ids (C,) ascending and their weights (C,) f32. Never empty."""

    ids: npt.NDArray[np.intp]
    weights: npt.NDArray[np.float32]

    @property
    def mass(self) -> float:
        return float(self.weights.sum(dtype=np.float64))

    def only(self, kept: npt.NDArray[np.bool_]) -> Candidates:
        return Candidates(self.ids[kept], self.weights[kept])


def is_filtered(params: SamplingParams) -> bool:
    return params.top_k > 0 or params.top_p < 1 or params.min_p > 0 or params.typical_p < 1


def narrow(weights: npt.NDArray[np.float32], total: float, params: SamplingParams) -> Candidates:
    """The candidates of one row. Each filter sees the survivors of the one before, renormalised.

    Shapes: weights (P,) f32, a vocabulary and perhaps a padding of 0; total is their sum.
    Sources: top_p Holtzman et al. 2020; typical_p Meister et al. 2023; min_p Nguyen et al. 2024.
    """
    if params.top_k > 0:
        left = _at_least(weights, largest_bound(weights, params.top_k))
    elif params.typical_p < 1:
        left = _at_least(weights, _SMALLEST)
    elif params.top_p < 1:
        left = _nucleus_bound(weights, total, params.top_p)
    else:
        left = _at_least(weights, np.float32(params.min_p))
    return _filtered(left, total, params)


def narrow_heaviest(
    heaviest_few: Candidates, total: float, params: SamplingParams, *, are_all: bool
) -> Candidates | None:
    """As `narrow`, from the heaviest tokens of a row alone; None where lighter ones might matter.

    are_all: there are no others. total is the sum of the whole row's weights.
    """
    lightest = heaviest_few.weights.min()
    left = heaviest_few.only(heaviest_few.weights >= _SMALLEST)
    narrowed = _filtered(left, total, params)
    if are_all or lightest == 0:
        return narrowed
    if params.top_k > 0:
        kept = left.only(heaviest(left.weights, params.top_k))
    elif params.typical_p < 1:
        return None
    else:
        kept = narrowed
    # Nothing as light as the lightest was kept, so nothing else would have been.
    return narrowed if kept.weights.min() > lightest else None


def _filtered(left: Candidates, total: float, params: SamplingParams) -> Candidates:
    if params.top_k > 0:
        left = left.only(heaviest(left.weights, params.top_k))
        total = left.mass
    if params.typical_p < 1:
        left = _typical(left, params.typical_p)
        total = left.mass
    if params.top_p < 1:
        left = left.only(heaviest_mass(left.weights, left.weights, params.top_p * total))
    if params.min_p > 0:
        left = left.only(left.weights >= min(params.min_p, 1.0) * left.weights.max())
    return left


def _at_least(weights: npt.NDArray[np.float32], bound: np.float32) -> Candidates:
    ids = np.flatnonzero(weights >= max(bound, _SMALLEST))
    return Candidates(ids, weights[ids])


def _nucleus_bound(weights: npt.NDArray[np.float32], total: float, top_p: float) -> Candidates:
    """Few tokens that are sure to hold the nucleus.

    P tokens lighter than t weigh less than t * P together. At t = (1 - top_p) * total / P that is
    too little to matter, so the nucleus lies above t; a larger t is tried first, and its sum checked.
    The best token, of weight 1, is in every nucleus.
    """
    left = _at_least(weights, np.float32(min(1.0, (1.0 - top_p) * total / _LIGHT_TOKENS)))
    if left.mass < top_p * total:
        left = _at_least(weights, np.float32((1.0 - top_p) * total / len(weights)))
    return left


def _typical(left: Candidates, typical_p: float) -> Candidates:
    """The tokens whose surprise is nearest to the entropy, up to typical_p of the mass."""
    probabilities = left.weights / np.float32(left.mass)
    if not probabilities.all():  # the lightest are lost in the division, and have no surprise
        left, probabilities = left.only(probabilities > 0), probabilities[probabilities > 0]
    surprise = -np.log(probabilities)
    entropy = np.dot(probabilities, surprise)
    nearness = 1 / (1 + np.abs(surprise - entropy))
    return left.only(heaviest_mass(nearness, probabilities, typical_p))
