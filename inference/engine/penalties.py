"""Changes of logits that depend on a sequence's own tokens and on its logit_bias. Chooses nothing.

Order: repeat penalty, presence and frequency penalties, then logit_bias, so that a ban stays a ban.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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
        recent = history[-params.repeat_last_n :] if params.repeat_last_n > 0 else history
        old = logits[recent]  # a token that occurs twice is written twice, with the same value
        logits[recent] = np.where(old > 0, old / params.repeat_penalty, old * params.repeat_penalty)
    if state.counts_outputs:
        logits[state.outputs.ids] -= state.outputs.counts * np.float32(
            params.frequency_penalty
        ) + np.float32(params.presence_penalty)
    if len(state.bias_ids):
        logits[state.bias_ids] += state.bias
