"""Log probabilities to report: log-softmax of the raw logits. Knows no filter and no penalty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from inference.engine.params import TokenLogprobs
from inference.engine.selection import largest_bound

if TYPE_CHECKING:
    import numpy.typing as npt


def token_logprobs(logits: npt.NDArray[np.float32], token_id: int, num_top: int) -> TokenLogprobs:
    """The chosen token's logprob and the num_top best ones, best first, ties by id.

    Shapes: logits (V,) f32, finite maximum.   Units: natural logarithm.
    """
    best = logits.max()
    log_total = float(best) + float(np.log(np.exp(logits - best).sum(dtype=np.float64)))
    top = _top(logits, num_top)
    return logprobs_of(float(logits[token_id]), log_total, top, logits[top])


def logprobs_of(
    logit: float,
    log_total: float,
    top: npt.NDArray[np.int64],
    top_logits: npt.NDArray[np.float32],
) -> TokenLogprobs:
    """Of a token's logit and the best ones, given the logarithm of the sum of all exp(logit)."""
    return TokenLogprobs.pack(logit - log_total, top, top_logits.astype(np.float64) - log_total)


def _top(logits: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.int64]:
    if count == 0:
        return np.empty(0, np.int64)
    ids = np.flatnonzero(logits >= largest_bound(logits, count))
    order = (-logits[ids]).argsort(kind="stable")
    return ids[order[:count]]
