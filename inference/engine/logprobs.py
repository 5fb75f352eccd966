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
    return TokenLogprobs(
        float(logits[token_id]) - log_total,
        tuple((i, float(logits[i]) - log_total) for i in _top(logits, num_top)),
    )


def _top(logits: npt.NDArray[np.float32], count: int) -> list[int]:
    if count == 0:
        return []
    ids = np.flatnonzero(logits >= largest_bound(logits, count))
    order = (-logits[ids]).argsort(kind="stable")
    best: list[int] = ids[order[:count]].tolist()
    return best
