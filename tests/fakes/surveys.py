"""Surveys of logits that lie on the host, answered by the reference: an executor's side of asking.

Counts what was asked and fetched. Knows no engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel.survey import MOST_KEPT, Finding, Survey, Traffic
from kernels.reference import survey as reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

MOST_ALIKE = 2048  # values that are put in order


class SurveyedLogits:
    """Shapes: rows (L, V) f32."""

    def __init__(self, rows: npt.NDArray[np.float32]) -> None:
        self.rows, self.traffic = rows, Traffic()

    def answer(self, surveys: Sequence[Survey]) -> list[Finding]:
        return [self._answer(survey) for survey in surveys]

    def logits(self, row: int, first: int, end: int) -> npt.NDArray[np.float32]:
        self.traffic.num_logits += end - first
        return self.rows[row, first:end]

    def _answer(self, survey: Survey) -> Finding:
        assert survey.num_kept <= MOST_KEPT
        logits = self.rows[survey.row].copy()
        if survey.adjustments is not None:
            a = survey.adjustments
            reference.adjust_logits(logits, a.ids, a.repeat, a.subtract, a.bias)
        found = reference.survey(logits, survey.scale, survey.uniform or 0.0, survey.num_kept)
        heaviest = None
        if survey.num_kept and (logits >= found.values[-1]).sum() <= MOST_ALIKE:
            heaviest = found.ids, found.values
        drawn = None
        if survey.uniform is not None and np.isfinite(found.peak):
            drawn = found.drawn, float(logits[found.drawn])
        return Finding(found.peak, found.best, found.total, drawn, heaviest)
