"""Token probabilities in the two routes' forms. Knows no sampling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from inference.api.errors import GenerationFailed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from inference.api.generation import PlacedToken
    from inference.engine.params import TokenLogprobs
    from inference.text.tokenizer import Tokenizer


class TopLogprob(Struct, frozen=True):
    token: str
    logprob: float
    bytes: list[int]


class ChatTokenLogprob(Struct, frozen=True):
    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChatLogprobs(Struct, frozen=True):
    content: list[ChatTokenLogprob]
    refusal: None = None


class CompletionLogprobs(Struct, frozen=True):
    """text_offset counts characters of the choice's text, from 0."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


def chat_logprobs(tokenizer: Tokenizer, placed: Iterable[PlacedToken]) -> ChatLogprobs:
    return ChatLogprobs([_chat_token(tokenizer, each) for each in placed])


def completion_logprobs(tokenizer: Tokenizer, placed: Iterable[PlacedToken]) -> CompletionLogprobs:
    made = CompletionLogprobs([], [], [], [])
    for each in placed:
        found = _logprobs(each)
        made.tokens.append(token_text(tokenizer, each.token.id))
        made.token_logprobs.append(found.logprob)
        made.top_logprobs.append({token_text(tokenizer, i): value for i, value in found.top})
        made.text_offset.append(each.offset)
    return made


def token_text(tokenizer: Tokenizer, token_id: int) -> str:
    """The token by itself; a piece of a character becomes U+FFFD, and `bytes` tells what it was."""
    return tokenizer.token_bytes(token_id, special=True).decode(errors="replace")


def _chat_token(tokenizer: Tokenizer, placed: PlacedToken) -> ChatTokenLogprob:
    found = _logprobs(placed)
    raw = tokenizer.token_bytes(placed.token.id, special=True)
    top = [
        TopLogprob(token_text(tokenizer, i), value, list(tokenizer.token_bytes(i, special=True)))
        for i, value in found.top
    ]
    return ChatTokenLogprob(raw.decode(errors="replace"), found.logprob, list(raw), top)


def _logprobs(placed: PlacedToken) -> TokenLogprobs:
    if placed.token.logprobs is None:
        raise GenerationFailed("The engine reported no token probabilities.")
    return placed.token.logprobs
