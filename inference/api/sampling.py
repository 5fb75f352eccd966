"""From the fields of a request to the engine's sampling parameters. Knows no text."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from inference.api.errors import InvalidRequest
from inference.engine.params import SamplingParams

if TYPE_CHECKING:
    from inference.api.schemas import GenerationFields

N = TypeVar("N", int, float)
_SEED_MASK = (1 << 64) - 1


def sampling_params(
    fields: GenerationFields,
    *,
    defaults: SamplingParams,
    num_logprobs: int | None,
    vocab_size: int,
    context_len: int,
) -> SamplingParams:
    """What is asked for, and the model's defaults for the rest.

    Raises: InvalidRequest, for a logit_bias id that the model does not have.
    """
    bias = {int(token_id): value for token_id, value in (fields.logit_bias or {}).items()}
    for token_id in bias:
        if token_id >= vocab_size:
            raise InvalidRequest(
                f"'logit_bias' names token {token_id}; this model's ids run from 0 to"
                f" {vocab_size - 1}.",
                "logit_bias",
            )
    repeat_last_n = _or(fields.repeat_last_n, defaults.repeat_last_n)
    return SamplingParams(
        temperature=_or(fields.temperature, defaults.temperature),
        top_p=_or(fields.top_p, defaults.top_p),
        # llama.cpp and vLLM write -1 for "off" and for "the whole context".
        top_k=max(_or(fields.top_k, defaults.top_k), 0),
        min_p=_or(fields.min_p, defaults.min_p),
        typical_p=_or(fields.typical_p, defaults.typical_p),
        repeat_penalty=_or(fields.repeat_penalty, defaults.repeat_penalty),
        repeat_last_n=context_len if repeat_last_n < 0 else repeat_last_n,
        presence_penalty=_or(fields.presence_penalty, defaults.presence_penalty),
        frequency_penalty=_or(fields.frequency_penalty, defaults.frequency_penalty),
        logit_bias=bias,
        seed=None if fields.seed is None else fields.seed & _SEED_MASK,
        num_logprobs=num_logprobs,
    )


def _or(value: N | None, default: N) -> N:
    return default if value is None else value
