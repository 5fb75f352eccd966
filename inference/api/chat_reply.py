"""The objects of /v1/chat/completions, whole and as chunks. Knows nothing about how text is made."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, Struct, UnsetType

from inference.api.generation import Delta, Ending, Item
from inference.api.logprobs import ChatLogprobs, chat_logprobs
from inference.api.reply import Identity, Timings, Usage, timings, total_usage
from inference.api.sse import PING, EventFrame, event

if TYPE_CHECKING:
    from inference.api.generation import PlacedToken
    from inference.text.tokenizer import Tokenizer

FinishReason = Literal["stop", "length"]


class ChatMessage(Struct, frozen=True):
    content: str
    role: Literal["assistant"] = "assistant"
    reasoning_content: str | UnsetType = UNSET


class ChatChoice(Struct, frozen=True):
    index: int
    message: ChatMessage
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason


class ChatCompletion(Struct, frozen=True):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    timings: Timings | UnsetType
    context_capped: bool | UnsetType


class ChunkDelta(Struct, frozen=True):
    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET


class ChunkChoice(Struct, frozen=True):
    index: int
    delta: ChunkDelta
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason | None


class ChatChunk(Struct, frozen=True):
    """usage: absent unless asked for; then null in every chunk but the last. timings: in the last."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | UnsetType | None
    timings: Timings | UnsetType
    context_capped: bool | UnsetType


@dataclass(frozen=True)
class ChatReply:
    """One choice's answer. `items` are (index, item) pairs; None marks a time without news."""

    identity: Identity
    tokenizer: Tokenizer
    with_logprobs: bool
    include_usage: bool

    async def whole(self, items: AsyncIterator[tuple[int, Item] | None]) -> ChatCompletion:
        content, reasoning = "", ""
        placed: list[PlacedToken] = []
        async for news in items:
            match news:
                case (_, Delta() as delta):
                    content += delta.content
                    reasoning += delta.reasoning
                    placed += delta.tokens
                case (_, Ending() as ending):
                    message = ChatMessage(content, reasoning_content=reasoning or UNSET)
                    logprobs = self._logprobs(placed)
                    choice = ChatChoice(0, message, logprobs, ending.finish_reason)
        return ChatCompletion(
            self.identity.id,
            "chat.completion",
            self.identity.created,
            self.identity.model,
            [choice],
            total_usage([ending]),
            timings([ending]),
            self.identity.context_capped,
        )

    async def events(self, items: AsyncIterator[tuple[int, Item] | None]) -> AsyncIterator[bytes]:
        """The role waits for the first news, so that a refusal can still have its HTTP status."""
        begun = False
        frame = EventFrame(self._message(ChunkDelta(content="")), "content")
        async for news in items:
            if not begun:
                begun = True
                yield self._chunk(ChunkDelta(role="assistant", content=""))
            match news:
                case None:
                    yield PING
                case (_, Delta(content=text, reasoning="")) if text and not self.with_logprobs:
                    yield frame.event(text)
                case (_, Delta() as delta):
                    changes = ChunkDelta(
                        content=delta.content or UNSET, reasoning_content=delta.reasoning or UNSET
                    )
                    yield self._chunk(changes, logprobs=self._logprobs(delta.tokens))
                case (_, Ending() as ending):
                    speed = timings([ending])
                    yield self._chunk(
                        ChunkDelta(),
                        finish_reason=ending.finish_reason,
                        speed=UNSET if self.include_usage else speed,
                    )
                    if self.include_usage:
                        yield event(self._of([], total_usage([ending]), speed))

    def _logprobs(self, placed: list[PlacedToken] | tuple[PlacedToken, ...]) -> ChatLogprobs | None:
        return chat_logprobs(self.tokenizer, placed) if self.with_logprobs else None

    def _chunk(
        self,
        delta: ChunkDelta,
        logprobs: ChatLogprobs | None = None,
        finish_reason: FinishReason | None = None,
        speed: Timings | UnsetType = UNSET,
    ) -> bytes:
        return event(self._message(delta, logprobs, finish_reason, speed))

    def _message(
        self,
        delta: ChunkDelta,
        logprobs: ChatLogprobs | None = None,
        finish_reason: FinishReason | None = None,
        speed: Timings | UnsetType = UNSET,
    ) -> ChatChunk:
        usage = None if self.include_usage else UNSET
        return self._of([ChunkChoice(0, delta, logprobs, finish_reason)], usage, speed)

    def _of(
        self,
        choices: list[ChunkChoice],
        usage: Usage | UnsetType | None,
        speed: Timings | UnsetType,
    ) -> ChatChunk:
        identity = self.identity
        return ChatChunk(
            identity.id,
            "chat.completion.chunk",
            identity.created,
            identity.model,
            choices,
            usage,
            speed,
            identity.context_capped,
        )
