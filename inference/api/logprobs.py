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
        made.tokens.append(_key(tokenizer, each.token.id))
        made.token_logprobs.append(found.logprob)
        made.top_logprobs.append({_key(tokenizer, i): value for i, value in found.top})
        made.text_offset.append(each.offset)
    return made


def _key(tokenizer: Tokenizer, token_id: int) -> str:
    """The token's text, or its bytes in OpenAI's notation: pieces of characters must not look alike."""
    raw = tokenizer.token_bytes(token_id, special=True)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def _chat_token(tokenizer: Tokenizer, placed: PlacedToken) -> ChatTokenLogprob:
    found = _logprobs(placed)
    text, raw = _text_and_bytes(tokenizer, placed.token.id)
    top = []
    for token_id, logprob in found.top:
        top_text, top_raw = _text_and_bytes(tokenizer, token_id)
        top.append(TopLogprob(top_text, logprob, top_raw))
    return ChatTokenLogprob(text, found.logprob, raw, top)


def _text_and_bytes(tokenizer: Tokenizer, token_id: int) -> tuple[str, list[int]]:
    """A piece of a character becomes U+FFFD; its bytes tell what it was."""
    raw = tokenizer.token_bytes(token_id, special=True)
    return raw.decode(errors="replace"), list(raw)


def _logprobs(placed: PlacedToken) -> TokenLogprobs:
    if placed.token.logprobs is None:
        raise GenerationFailed("The engine reported no token probabilities.")
    return placed.token.logprobs
