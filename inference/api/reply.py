"""What both routes' answers share: identity, usage, and the JSON response."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
from django.http import HttpResponse
from msgspec import Struct

from inference.api.generation import Ending


class PromptTokensDetails(Struct, frozen=True):
    cached_tokens: int


class Usage(Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


@dataclass(frozen=True)
class Identity:
    """The same on every chunk of a stream. 128 random bits: ids never meet, whoever restarts."""

    id: str
    model: str
    created: int = field(default_factory=lambda: int(time.time()))


def new_identity(prefix: str, model: str) -> Identity:
    return Identity(f"{prefix}-{secrets.token_hex(16)}", model)


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
