"""Chooses the next token of every row of a step whose logits lie elsewhere: asks, and chooses by the answers.

The tokens are those that `Sampler` would choose with the same random numbers. Rows whose choice cannot
be told from the answers are fetched whole and left to it: typical_p without top_k, filters that keep more
than the heaviest few hundred tokens, logits of which too many are alike, thousands of penalties.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accel.survey import MOST_ADJUSTMENTS, MOST_KEPT, Survey
from inference.engine.errors import SamplingFailed
from inference.engine.filters import Candidates, is_filtered, narrow_heaviest
from inference.engine.logprobs import logprobs_of
from inference.engine.params import Token, TokenLogprobs
from inference.engine.penalties import adjustments_of
from inference.engine.sampler import draw_of

if TYPE_CHECKING:
    from collections.abc import Sequence as Several

    import numpy.typing as npt

    from accel.survey import Finding, SurveyingExecutor
    from inference.engine.sampler import Sampler
    from inference.engine.sequence import Sequence

_NONE = np.empty(0, np.int32)
_TOP_K_MARGIN = (
    32  # kept beyond top_k: whoever ties with the last of them must not be the last one kept
)


@dataclass(frozen=True, eq=False)
class _Question:
    """What was asked about one row: `choice` and `report` are places among the surveys.

    choice: None where the row is to be fetched; report, for logprobs, may be the same.
    """

    sequence: Sequence
    uniform: float
    choice: int | None
    report: int | None
    adjusted_ids: npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Asked:
    """A step's surveys, for the executor; and the questions behind them, for `choose`."""

    surveys: tuple[Survey, ...]
    questions: tuple[_Question, ...]


class SurveySampler:
    """`sampler` chooses where rows are fetched. `num_fetched` counts those."""

    def __init__(self, vocab_size: int, sampler: Sampler) -> None:
        self._vocab_size, self._sampler = vocab_size, sampler
        self.num_fetched = 0

    @np.errstate(over="ignore")  # of absurd penalties, which are found out by the peak
    def ask(self, sequences: Several[Sequence]) -> Asked:
        """Before the step: its outputs depend on nothing that it computes. Takes the random numbers."""
        surveys: list[Survey] = []
        questions = [self._ask(row, sequence, surveys) for row, sequence in enumerate(sequences)]
        return Asked(tuple(surveys), tuple(questions))

    def _ask(self, row: int, sequence: Sequence, surveys: list[Survey]) -> _Question:
        state, params = sequence.sampler_state, sequence.sampler_state.params
        uniform = 0.0 if state.is_greedy else state.uniform()
        adjustments = None
        if state.is_adjusted:
            adjustments = adjustments_of(state, sequence.ids[: sequence.num_ids])
            if len(adjustments.ids) > MOST_ADJUSTMENTS:
                return _Question(sequence, uniform, None, None, _NONE)
        scale = 0.0 if state.is_greedy else state.inverse_temperature
        filtered = not state.is_greedy and is_filtered(params)
        num_kept = self._num_kept(params.top_k) if filtered else 0
        drawn = None if state.is_greedy or filtered else uniform
        report = None
        if params.num_logprobs is not None:
            num_top = min(params.num_logprobs, self._vocab_size)
            report = len(surveys)
            if adjustments is None and scale in (0.0, 1.0):
                scale, num_kept = 1.0, max(num_kept, num_top)
            else:
                surveys.append(Survey(row, 1.0, num_kept=num_top))
        surveys.append(Survey(row, scale, drawn, num_kept, adjustments))
        adjusted_ids = _NONE if adjustments is None else adjustments.ids
        return _Question(sequence, uniform, len(surveys) - 1, report, adjusted_ids)

    def _num_kept(self, top_k: int) -> int:
        wanted = top_k + _TOP_K_MARGIN if top_k > 0 else MOST_KEPT
        return min(wanted, MOST_KEPT, self._vocab_size)

    def choose(
        self, asked: Asked, findings: Several[Finding], executor: SurveyingExecutor
    ) -> list[Token | SamplingFailed]:
        """After the step: a token for each row, or why there is none. Raises: AccelError."""
        tokens: list[Token | SamplingFailed] = []
        for row, question in enumerate(asked.questions):
            token = self._choose(row, question, findings, executor)
            if token is None:
                self.num_fetched += 1
                logits = executor.logits(row, 0, self._vocab_size)
                (token,) = self._sampler.choose(
                    logits[None], [question.sequence], [question.uniform]
                )
            tokens.append(token)
        return tokens

    def _choose(
        self,
        row: int,
        question: _Question,
        findings: Several[Finding],
        executor: SurveyingExecutor,
    ) -> Token | SamplingFailed | None:
        """None where the answers do not tell."""
        if question.choice is None:
            return None
        finding = findings[question.choice]
        if not np.isfinite(finding.peak):
            # Of an adjusted row it is not known whether the model or the penalties are to blame.
            adjusted = question.sequence.sampler_state.is_adjusted
            return None if adjusted else SamplingFailed("the model's output is not a number")
        chosen = self._chosen(finding, question)
        if chosen is None or question.report is None:
            return None if chosen is None else Token(chosen[0])
        token_id, logit = chosen
        if token_id in question.adjusted_ids:  # reported is what the model said
            logit = float(executor.logits(row, token_id, token_id + 1)[0])
        num_top = question.sequence.request.sampling.num_logprobs or 0
        logprobs = _logprobs(findings[question.report], logit, num_top)
        return None if logprobs is None else Token(token_id, logprobs)

    def _chosen(self, finding: Finding, question: _Question) -> tuple[int, float] | None:
        """An id and its logit."""
        state = question.sequence.sampler_state
        if state.is_greedy:
            return finding.best, finding.peak
        if not is_filtered(state.params):
            return finding.drawn
        if finding.heaviest is None:
            return None
        ids, values = finding.heaviest
        order = ids.argsort()
        scale = np.float32(state.inverse_temperature)
        weights = np.exp((values[order] - np.float32(finding.peak)) * scale)
        few = Candidates(ids[order], weights)
        are_all = len(ids) == self._vocab_size
        left = narrow_heaviest(few, finding.total, state.params, are_all=are_all)
        if left is None:
            return None
        token_id = draw_of(left, question.uniform)
        return token_id, float(values[ids == token_id][0])


def _logprobs(finding: Finding, logit: float, num_top: int) -> TokenLogprobs | None:
    ids: npt.NDArray[np.int64] = np.empty(0, np.int64)
    values: npt.NDArray[np.float32] = np.empty(0, np.float32)
    if num_top:
        if finding.heaviest is None:
            return None
        ids, values = finding.heaviest
    log_total = finding.peak + float(np.log(finding.total))
    return logprobs_of(logit, log_total, ids[:num_top], values[:num_top])
