"""Records of a survey as NumPy lays them out, and how many thread blocks its kernels take.

Owns what kernels/cuda/survey.cuh and adjust_logits.cu lay out on their side; knows no die and no driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.cuda.launches import Grid, ceil_div

if TYPE_CHECKING:
    import numpy.typing as npt

GROUPS = 2048  # of a row, whose peaks give the bound
COLLECTED = 2048  # most values of a row that are put in order
RUN_LEN = 256  # weights are added up in runs of so many

SURVEY = np.dtype(
    [("uniform", "<f8"), ("row", "<i4"), ("scale", "<f4"), ("keep", "<i4"), ("start", "<i4")]
)
FINDING = np.dtype(
    [
        *(("total", "<f8"), ("peak", "<f4"), ("best", "<i4"), ("drawn", "<i4")),
        *(("num_collected", "<i4"), ("bound", "<u4"), ("drawn_logit", "<f4")),
    ]
)
ADJUSTMENT = np.dtype([("at", "<i4"), ("repeat", "<f4"), ("subtract", "<f4"), ("bias", "<f4")])
PAIR = np.dtype("<u8")

_WEIGH_LEN = 2048  # values of a thread block of weigh_runs


def num_runs(width: int) -> int:
    return ceil_div(width, RUN_LEN)


def adjust_grid(num_adjustments: int) -> Grid:
    return (ceil_div(num_adjustments, 128), 1, 1)


def group_grid(num_surveys: int) -> Grid:
    return (GROUPS // 128, num_surveys, 1)


def weigh_grid(width: int, num_surveys: int) -> Grid:
    return (ceil_div(width, _WEIGH_LEN), num_surveys, 1)


def row_grid(num_surveys: int) -> Grid:
    """Of row_peak, heaviest and draw."""
    return (num_surveys, 1, 1)


def unpack(
    pairs: npt.NDArray[np.uint64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The ids (K,) and values (K,) f32 of pairs, of which those that are 0 are left out."""
    pairs = pairs[pairs > 0]
    keys = (pairs >> np.uint64(32)).astype(np.uint32)
    ids = np.uint32(0xFFFFFFFF) - pairs.astype(np.uint32)
    sign = np.uint32(1 << 31)
    bits = np.where(keys >= sign, keys ^ sign, ~keys)
    return ids.astype(np.int64), bits.view(np.float32)
