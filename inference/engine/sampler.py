"""Chooses the next token of every row of a step. Knows no queue, no pages and no text.

Order: penalties, logit_bias, temperature, top_k, typical_p, top_p, min_p, draw. Temperature comes
before the filters, as in OpenAI's API: top_p is a share of the distribution that is drawn from.
Work on whole vocabularies is done in few calls over all rows together, since NumPy gives up the GIL
in each of them; all of it is elementwise or within a row, so rows do not touch each other.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from inference.engine.errors import SamplingFailed
from inference.engine.filters import is_filtered, narrow
from inference.engine.logprobs import token_logprobs
from inference.engine.params import Token
from inference.engine.penalties import adjust

if TYPE_CHECKING:
    from collections.abc import Sequence as Several

    import numpy.typing as npt

    from inference.engine.filters import Candidates
    from inference.engine.params import SamplingParams
    from inference.engine.sequence import Sequence

_SUM_LEN = 256  # weights are added in runs of so many, then the runs' sums


class Sampler:
    """Owns the scratch rows of one worker."""

    def __init__(self, vocab_size: int, max_rows: int) -> None:
        self._vocab_size = vocab_size
        padded = -(-vocab_size // _SUM_LEN) * _SUM_LEN
        self._scratch: npt.NDArray[np.float32] = np.zeros((max_rows, padded), np.float32)
        self._row_numbers = np.arange(max_rows)

    def choose(
        self,
        logits: npt.NDArray[np.float32],
        sequences: Several[Sequence],
        uniforms: Several[float] | None = None,
        best: Several[tuple[float, int]] | None = None,
    ) -> list[Token | SamplingFailed]:
        """A token for each row, or why there is none.

        Shapes: logits (L, V) f32, read only; sequences: the L sequences of those rows; uniforms: L numbers
        of [0, 1) to draw by, where the sequences' next ones have been taken already; best: what
        `accel.backend.RankingExecutor` tells of each row, where it has been told.
        """
        ids: list[int | SamplingFailed] = []
        weighted: list[int] = []
        for row, (peak, best_id) in enumerate(_best_of(logits) if best is None else best):
            state = sequences[row].sampler_state
            if not isfinite(peak):
                ids.append(SamplingFailed("the model's output is not a number"))
                continue
            ids.append(best_id)
            if state.is_adjusted or not state.is_greedy:
                weighted.append(row)
        if weighted:
            taken = None if uniforms is None else [uniforms[r] for r in weighted]
            chosen = self._choose_weighted(
                logits, weighted, [sequences[r] for r in weighted], taken
            )
            for row, token_id in zip(weighted, chosen, strict=True):
                ids[row] = token_id
        return [
            token_id
            if isinstance(token_id, SamplingFailed)
            else _token(token_id, logits, row, sequences[row])
            for row, token_id in enumerate(ids)
        ]

    # Masks near the largest float32 and absurd penalties go to infinity, which is looked for.
    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def _choose_weighted(
        self,
        logits: npt.NDArray[np.float32],
        rows: list[int],
        sequences: list[Sequence],
        uniforms: list[float] | None,
    ) -> list[int | SamplingFailed]:
        """Rows whose logits must be changed or drawn from."""
        padded = self._scratch[: len(rows)]
        values = padded[:, : self._vocab_size]  # the padding beyond stays 0
        for index, (row, sequence) in enumerate(zip(rows, sequences, strict=True)):
            np.copyto(values[index], logits[row])
            if sequence.sampler_state.is_adjusted:
                adjust(values[index], sequence.sampler_state, sequence.ids[: sequence.num_ids])
        best = values.argmax(axis=1)
        peaks = values[self._row_numbers[: len(rows)], best]
        drawable = np.isfinite(peaks)
        if not all(s.sampler_state.is_greedy for s in sequences):
            self._to_weights(values, np.where(drawable, peaks, 0), sequences)
        chosen: list[int | SamplingFailed] = best.tolist()
        for index, sequence in enumerate(sequences):
            if not drawable[index]:
                chosen[index] = SamplingFailed("penalties and logit_bias leave none")
            elif not sequence.sampler_state.is_greedy:
                state = sequence.sampler_state
                uniform = state.uniform() if uniforms is None else uniforms[index]
                chosen[index] = _draw(padded[index], state.params, uniform)
        return chosen

    @staticmethod
    def _to_weights(
        values: npt.NDArray[np.float32],
        peaks: npt.NDArray[np.float32],
        sequences: list[Sequence],
    ) -> None:
        """Logits to exp((logit - peak) / temperature), in place."""
        scale = np.array([s.sampler_state.inverse_temperature for s in sequences], np.float32)
        np.subtract(values, peaks[:, None], out=values)
        np.multiply(values, scale[:, None], out=values)
        np.exp(values, out=values)


def _best_of(logits: npt.NDArray[np.float32]) -> list[tuple[float, int]]:
    """The largest of each row and the lowest id of it; NaN counts as largest."""
    best: list[int] = logits.argmax(axis=1).tolist()
    return [(logits.item(row, token_id), token_id) for row, token_id in enumerate(best)]


def _token(token_id: int, logits: npt.NDArray[np.float32], row: int, sequence: Sequence) -> Token:
    num_logprobs = sequence.sampler_state.params.num_logprobs
    if num_logprobs is None:
        return Token(token_id)
    return Token(token_id, token_logprobs(logits[row], token_id, num_logprobs))


def _draw(weights: npt.NDArray[np.float32], params: SamplingParams, uniform: float) -> int:
    """One token of a row of weights (P,), by a uniform number."""
    runs = weights.reshape(-1, _SUM_LEN)
    sums = np.cumsum(runs.sum(axis=1), dtype=np.float64)
    if is_filtered(params):
        return draw_of(narrow(weights, float(sums[-1]), params), uniform)
    run, rest = _locate(sums, uniform * float(sums[-1]))
    index, _ = _locate(np.cumsum(runs[run], dtype=np.float64), rest)
    return run * _SUM_LEN + index


def draw_of(candidates: Candidates, uniform: float) -> int:
    """One of the candidates, by a uniform number of [0, 1)."""
    shares = np.cumsum(candidates.weights, dtype=np.float64)
    index, _ = _locate(shares, uniform * float(shares[-1]))
    return int(candidates.ids[index])


def _locate(cumulative: npt.NDArray[np.float64], target: float) -> tuple[int, float]:
    """The first index whose cumulative sum exceeds target, and what target leaves before it.

    Rounding may put target at or past the end; it is held below it, so that an item of weight 0 is
    never located.
    """
    target = min(target, float(np.nextafter(cumulative[-1], 0.0)))
    index = int(cumulative.searchsorted(target, side="right"))
    return index, target - float(cumulative[index - 1]) if index else target
