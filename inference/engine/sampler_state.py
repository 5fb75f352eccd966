"""What sampling keeps of one sequence: its random numbers, output counts and bias as arrays.

Everything here is a function of the sequence's own parameters and tokens; it knows no neighbours and
no logits.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from inference.engine.params import SamplingParams

# Below this, dividing by the temperature may overflow float32; the result is greedy anyway.
MIN_TEMPERATURE = 1e-4
# OpenAI's meaning of logit_bias: -100 is a ban, not a large number.
BAN_BIAS = -100.0


class OutputCounts:
    """How often each token was put out, as arrays over the distinct tokens so far."""

    def __init__(self) -> None:
        self._index: dict[int, int] = {}
        self._ids = np.empty(64, np.int64)
        self._counts = np.empty(64, np.float32)

    def add(self, token_id: int) -> None:
        index = self._index.get(token_id)
        if index is None:
            index = len(self._index)
            if index == len(self._ids):
                self._ids = np.concatenate([self._ids, np.empty_like(self._ids)])
                self._counts = np.concatenate([self._counts, np.empty_like(self._counts)])
            self._index[token_id] = index
            self._ids[index], self._counts[index] = token_id, 0.0
        self._counts[index] += 1.0

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        return self._ids[: len(self._index)]

    @property
    def counts(self) -> npt.NDArray[np.float32]:
        return self._counts[: len(self._index)]


class SamplerState:
    """One sequence's own side of sampling. One uniform number is drawn for each sampled token."""

    def __init__(self, params: SamplingParams) -> None:
        self.params = params
        self.is_greedy = not params.temperature >= MIN_TEMPERATURE
        self.inverse_temperature = 1.0 if self.is_greedy else 1.0 / params.temperature
        self.counts_outputs = params.presence_penalty != 0.0 or params.frequency_penalty != 0.0
        self.repeats = params.repeat_penalty != 1.0 and params.repeat_last_n != 0
        self.is_adjusted = self.counts_outputs or self.repeats or bool(params.logit_bias)
        self.outputs = OutputCounts()
        self.bias_ids = np.array(list(params.logit_bias), np.int64)
        bias = np.array(list(params.logit_bias.values()), np.float32)
        self.bias = np.where(bias <= BAN_BIAS, np.float32(-np.inf), bias)
        self._random = _generator(params.seed)

    def uniform(self) -> float:
        """The next number of [0, 1)."""
        return self._random.random()

    def count(self, token_id: int) -> None:
        if self.counts_outputs:
            self.outputs.add(token_id)


def _generator(seed: int | None) -> np.random.Generator:
    # Philox is specified, counter-based and the same on every platform; seeds may be negative int64.
    key = secrets.randbits(64) if seed is None else seed % 2**64
    return np.random.Generator(np.random.Philox(key))
