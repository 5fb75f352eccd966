"""What may be asked of a step's logits where they lie, so that they need not be fetched.

Owns the questions and the answers of a backend whose logits are far from the host; chooses no token and
knows no sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from accel.backend import Executor

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from accel.backend import StepBatch

MOST_KEPT = 512  # of the heaviest values of a row
MOST_ADJUSTMENTS = 4096  # of a row


@dataclass(frozen=True, eq=False)
class Adjustments:
    """Changes of some logits v of a row: v / repeat or, below 0, v * repeat; then - subtract + bias.

    Shapes: ids (A,) int32, no id twice; repeat, subtract, bias (A,) f32.
    """

    ids: npt.NDArray[np.int32]
    repeat: npt.NDArray[np.float32]
    subtract: npt.NDArray[np.float32]
    bias: npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Survey:
    """A question about one row, counted among the rows that want logits.

    scale: inverse temperature of the weights exp((logit - peak) * scale); 0: the peak alone is wanted.
    uniform: of [0, 1), to draw one id by the weights; None: none is drawn. num_kept: how many of the heaviest
    are wanted, at most MOST_KEPT. adjustments, at most MOST_ADJUSTMENTS: seen by this survey alone.
    """

    row: int
    scale: float = 0.0
    uniform: float | None = None
    num_kept: int = 0
    adjustments: Adjustments | None = None


@dataclass(frozen=True, eq=False)
class Finding:
    """The answer. peak is NaN where a logit is; best the lowest id of that logit; total the weights' sum.

    drawn: the first id whose weights up to it add up to more than uniform * total, and its logit as this
    survey saw it; None where none was drawn. heaviest: ids (K,) int64 and values (K,) f32, the largest first,
    equal ones by id; K is the number wanted, or the vocabulary's size. None where none are wanted, or so many
    values are alike that they were not put in order.
    """

    peak: float
    best: int
    total: float
    drawn: tuple[int, float] | None
    heaviest: tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]] | None


@dataclass
class Traffic:
    """What crossed from the logits to the host: rows asked about, bytes of answers, and logits fetched."""

    num_rows: int = 0
    num_answer_bytes: int = 0
    num_logits: int = 0


@runtime_checkable
class SurveyingExecutor(Executor, Protocol):
    """An executor that is asked about logits instead of handing them out."""

    @property
    def traffic(self) -> Traffic: ...

    def start_surveyed(self, batch: StepBatch, surveys: Sequence[Survey]) -> None:
        """`start`, with questions about the step's logits; `finish_surveyed` ends such a step.

        At most two surveys of a row, of which one is adjusted if there are two. Raises: AccelError.
        """
        ...

    def finish_surveyed(self) -> list[Finding]:
        """What was found in the oldest step in flight, in the order of its surveys. Raises: AccelError."""
        ...

    def logits(self, row: int, first: int, end: int) -> npt.NDArray[np.float32]:
        """Some logits, unadjusted, of the step last finished: ids `first` to `end` - 1 of a row.

        Good until the next `start_surveyed`, and the array until the next call. Raises: AccelError.
        """
        ...
