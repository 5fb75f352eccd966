"""A survey of a row of logits: what a choice of a token needs to know.

Owns the definition; chooses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

_RUN_LEN = 256


@dataclass(frozen=True, eq=False)
class Finding:
    """peak: the largest logit, NaN where there is a NaN; best: its id, the lowest of equals.

    total: sum of the weights exp((logit - peak) * scale); drawn: the first id whose weights up to it add up
    to more than uniform * total. ids, values (K,): the heaviest, the largest first, equal ones by id.
    """

    peak: float
    best: int
    total: float
    drawn: int
    ids: npt.NDArray[np.int64]
    values: npt.NDArray[np.float32]


@np.errstate(
    invalid="ignore"
)  # of rows that are no numbers, of which the peak alone means something
def survey(logits: npt.NDArray[np.float32], scale: float, uniform: float, num_kept: int) -> Finding:
    """Shapes: logits (V,) f32. Units: scale is the inverse of a temperature, uniform of [0, 1)."""
    best = int(logits.argmax())
    order = np.lexsort((np.arange(len(logits)), -logits))[:num_kept]
    weights = np.exp((logits - logits[best]) * np.float32(scale))
    sums = np.cumsum(weights, dtype=np.float64)
    target = min(uniform * float(sums[-1]), float(np.nextafter(sums[-1], 0.0)))
    drawn = int(sums.searchsorted(target, side="right"))
    return Finding(float(logits[best]), best, float(sums[-1]), drawn, order, logits[order])


def run_sums(weights: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Sums of every 256 weights, in the order in which NumPy adds neighbouring floats.

    Shapes: weights (V,) -> (ceil(V / 256),) f32.
    """
    padded = np.zeros(-(-len(weights) // _RUN_LEN) * _RUN_LEN, np.float32)
    padded[: len(weights)] = weights
    sums: npt.NDArray[np.float32] = padded.reshape(-1, _RUN_LEN).sum(axis=1)
    return sums


def adjust_logits(
    logits: npt.NDArray[np.float32],
    at: npt.NDArray[np.int32],
    repeat: npt.NDArray[np.float32],
    subtract: npt.NDArray[np.float32],
    bias: npt.NDArray[np.float32],
) -> None:
    """Change the logits at `at` in place. Shapes: all but logits (n,), f32; no `at` twice."""
    old = logits[at]
    logits[at] = np.where(old > 0, old / repeat, old * repeat) - subtract + bias
