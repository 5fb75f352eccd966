"""Changes of logits that depend on a sequence's own tokens and on its logit_bias. Chooses nothing.

Order: repeat penalty, presence and frequency penalties, then logit_bias, so that a ban stays a ban.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel.survey import Adjustments

if TYPE_CHECKING:
    import numpy.typing as npt

    from inference.engine.sampler_state import SamplerState


def adjust(
    logits: npt.NDArray[np.float32], state: SamplerState, history: npt.NDArray[np.int32]
) -> None:
    """Apply penalties and bias to one row, in place.

    Shapes: logits (V,) f32, history (T,) prompt and output ids in order.
    Source: repeat penalty of Keskar et al. 2019 (CTRL, §4.1), positive logits divided and negative
    ones multiplied; presence and frequency penalties as in OpenAI's API reference.
    """
    params = state.params
    if state.repeats:
        recent = _recent(state, history)
        old = logits[recent]  # a token that occurs twice is written twice, with the same value
        logits[recent] = np.where(old > 0, old / params.repeat_penalty, old * params.repeat_penalty)
    if state.counts_outputs:
        logits[state.outputs.ids] -= _output_penalties(state)
    if len(state.bias_ids):
        logits[state.bias_ids] += state.bias


def adjustments_of(state: SamplerState, history: npt.NDArray[np.int32]) -> Adjustments:
    """What `adjust` would do, as one change of each id: the same bits."""
    nothing = np.empty(0, np.int64)
    recent = _recent(state, history) if state.repeats else nothing
    outputs = state.outputs.ids if state.counts_outputs else nothing
    ids = np.unique(np.concatenate([recent, outputs, state.bias_ids])).astype(np.int32)
    repeat = np.ones(len(ids), np.float32)
    repeat[ids.searchsorted(recent)] = state.params.repeat_penalty
    subtract, bias = np.zeros_like(repeat), np.zeros_like(repeat)
    if state.counts_outputs:
        subtract[ids.searchsorted(outputs)] = _output_penalties(state)
    bias[ids.searchsorted(state.bias_ids)] = state.bias
    return Adjustments(ids, repeat, subtract, bias)


def _recent(state: SamplerState, history: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    last_n = state.params.repeat_last_n
    return history[-last_n:] if last_n > 0 else history


def _output_penalties(state: SamplerState) -> npt.NDArray[np.float32]:
    """For every distinct output token."""
    params = state.params
    return state.outputs.counts * np.float32(params.frequency_penalty) + np.float32(
        params.presence_penalty
    )
