"""The largest few of many numbers, without sorting the many. Knows nothing about tokens.

Every choice is exact, ties going to the lower index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

_NUM_IN_GROUP = 64
_BIN_SHIFT = 18  # keeps sign, exponent and 5 bits of mantissa: bins 3 % wide, 4,064 of them up to 1


def largest_bound(values: npt.NDArray[np.float32], count: int) -> np.float32:
    """A number that at least `count` of the values reach, and not many more.

    Among groups of values, as many have a maximum of at least the count-th largest maximum. The
    groups are strided, so that their maxima are taken elementwise over long rows.
    Shapes: values (V,) f32.
    """
    if count >= len(values):
        return np.float32(-np.inf)
    num_groups = len(values) // _NUM_IN_GROUP
    if count <= num_groups:
        grouped = values[: num_groups * _NUM_IN_GROUP].reshape(_NUM_IN_GROUP, num_groups)
        values = grouped.max(axis=0)
    bound: np.float32 = np.partition(values, -count)[-count]
    return bound


def heaviest(values: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.bool_]:
    """Which are the `count` largest values; all of them when there are fewer.

    Shapes: values (V,) f32 → (V,) bool.
    """
    if count >= len(values):
        return np.ones(len(values), np.bool_)
    bound = np.partition(values, -count)[-count]
    chosen: npt.NDArray[np.bool_] = values > bound
    ties = np.flatnonzero(values == bound)
    chosen[ties[: count - np.count_nonzero(chosen)]] = True
    return chosen


def heaviest_mass(
    keys: npt.NDArray[np.float32], masses: npt.NDArray[np.float32], target: float
) -> npt.NDArray[np.bool_]:
    """Which are the largest keys whose masses first add up to `target`; at least one.

    Positive floats order as their bits do, so a histogram of the leading bits tells in which bin
    the sum reaches the target; only that bin is sorted.
    Shapes: keys (V,) f32 > 0, masses (V,) f32 ≥ 0 → (V,) bool.
    """
    bins = keys.view(np.uint32) >> np.uint32(_BIN_SHIFT)
    low = bins.min()
    sums_from_top = np.cumsum(np.bincount(bins - low, weights=masses)[::-1])
    # Rounding may keep the whole sum below the target; then the lowest bin is the edge.
    num_full = min(int(sums_from_top.searchsorted(target)), len(sums_from_top) - 1)
    edge_bin = int(low) + len(sums_from_top) - 1 - num_full
    chosen = bins > edge_bin
    edge = np.flatnonzero(bins == edge_bin)
    edge = edge[(-keys[edge]).argsort(kind="stable")]
    missing = target - (float(sums_from_top[num_full - 1]) if num_full else 0.0)
    reached = int(np.cumsum(masses[edge], dtype=np.float64).searchsorted(missing))
    chosen[edge[: reached + 1]] = True
    return chosen
