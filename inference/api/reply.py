"""What both routes' answers share: identity, usage, and the JSON response."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec
from django.http import HttpResponse
from msgspec import UNSET, Struct, UnsetType

from inference.api.generation import Ending


class PromptTokensDetails(Struct, frozen=True):
    cached_tokens: int


class Usage(Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


class Timings(Struct, frozen=True):
    """How fast the answer was made, under the names llama-server gives: prompt read, answer predicted.

    Rates are of the answer's tokens after the first, which comes out of the prompt; 0 where there are
    none. Waiting in the queue is in neither time.
    """

    cache_n: int
    prompt_n: int
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_token_ms: float
    predicted_per_second: float


@dataclass(frozen=True)
class Identity:
    """The same on every chunk of a stream. 128 random bits: ids never meet, whoever restarts.

    context_capped: true where old turns were left out; no field otherwise.
    """

    id: str
    model: str
    context_capped: bool | UnsetType = UNSET
    created: int = field(default_factory=lambda: int(time.time()))


def new_identity(prefix: str, model: str, *, is_capped: bool = False) -> Identity:
    return Identity(f"{prefix}-{secrets.token_hex(16)}", model, is_capped or UNSET)


def timings(endings: Sequence[Ending]) -> Timings | UnsetType:
    """Of a request's one choice; several take their time side by side, and have none of their own."""
    if len(endings) != 1:
        return UNSET
    (ending,) = endings
    num_prompt = ending.num_prompt_tokens - ending.num_cached_tokens
    prompt_s, predicted_s = ending.progress.prefill_s or 0.0, ending.progress.decode_s or 0.0
    num_later = max(ending.num_sampled_tokens - 1, 0)
    return Timings(
        cache_n=ending.num_cached_tokens,
        prompt_n=num_prompt,
        prompt_ms=_ms(prompt_s),
        prompt_per_token_ms=_ms(_ratio(prompt_s, num_prompt)),
        prompt_per_second=round(_ratio(num_prompt, prompt_s), 3),
        predicted_n=ending.num_sampled_tokens,
        predicted_ms=_ms(predicted_s),
        predicted_per_token_ms=_ms(_ratio(predicted_s, num_later)),
        predicted_per_second=round(_ratio(num_later, predicted_s), 3),
    )


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)


def _ratio(amount: float, of: float) -> float:
    return amount / of if of else 0.0


def total_usage(endings: Iterable[Ending]) -> Usage:
    endings = tuple(endings)
    num_prompt = sum(e.num_prompt_tokens for e in endings)
    num_completion = sum(e.num_completion_tokens for e in endings)
    num_cached = sum(e.num_cached_tokens for e in endings)
    return Usage(
        num_prompt, num_completion, num_prompt + num_completion, PromptTokensDetails(num_cached)
    )


def json_response(message: Struct, status: int = 200) -> HttpResponse:
    body = msgspec.json.encode(message)
    return HttpResponse(body, status=status, content_type="application/json")
