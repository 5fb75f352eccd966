"""The objects of /v1/completions, whole and in pieces. Knows nothing about how text is made."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, Struct, UnsetType

from inference.api.generation import Delta, Ending, Item
from inference.api.logprobs import CompletionLogprobs, completion_logprobs
from inference.api.reply import Identity, Timings, Usage, timings, total_usage
from inference.api.sse import PING, EventFrame, event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inference.api.generation import PlacedToken
    from inference.text.tokenizer import Tokenizer


class CompletionChoice(Struct, frozen=True):
    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"] | None


class Completion(Struct, frozen=True):
    """Whole answers and pieces have the same form; usage and timings as in chat chunks."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | UnsetType | None
    timings: Timings | UnsetType


@dataclass(frozen=True)
class CompletionReply:
    """One choice a prompt. `echoed` is put in front of each choice's text: empty, or its prompt."""

    identity: Identity
    tokenizer: Tokenizer
    echoed: Sequence[str]
    with_logprobs: bool
    include_usage: bool

    async def whole(self, items: AsyncIterator[tuple[int, Item] | None]) -> Completion:
        texts = list(self.echoed)
        placed: list[list[PlacedToken]] = [[] for _ in texts]
        endings: dict[int, Ending] = {}
        async for news in items:
            match news:
                case (index, Delta() as delta):
                    texts[index] += delta.content
                    placed[index] += delta.tokens
                case (index, Ending() as ending):
                    endings[index] = ending
        choices = [
            CompletionChoice(i, text, self._logprobs(placed[i]), endings[i].finish_reason)
            for i, text in enumerate(texts)
        ]
        ended = tuple(endings.values())
        return self._of(choices, total_usage(ended), timings(ended))

    async def events(self, items: AsyncIterator[tuple[int, Item] | None]) -> AsyncIterator[bytes]:
        """Pieces of all choices as they come, each with its index; choice 0 is the first to be named."""
        begun = False
        frames = [self._frame(index) for index in range(len(self.echoed))]
        endings: list[Ending] = []
        async for news in items:
            if not begun:
                begun = True
                for index, text in enumerate(self.echoed):
                    yield self._piece(CompletionChoice(index, text, None, None))
            match news:
                case None:
                    yield PING
                case (index, Delta(content=text)) if not self.with_logprobs:
                    yield frames[index].event(text)
                case (index, Delta() as delta):
                    logprobs = self._logprobs(delta.tokens)
                    yield self._piece(CompletionChoice(index, delta.content, logprobs, None))
                case (index, Ending() as ending):
                    endings.append(ending)
                    is_last = len(endings) == len(self.echoed) and not self.include_usage
                    yield self._piece(
                        CompletionChoice(index, "", None, ending.finish_reason),
                        timings(endings) if is_last else UNSET,
                    )
        if self.include_usage:
            yield event(self._of([], total_usage(endings), timings(endings)))

    def _logprobs(self, placed: Sequence[PlacedToken]) -> CompletionLogprobs | None:
        return completion_logprobs(self.tokenizer, placed) if self.with_logprobs else None

    def _frame(self, index: int) -> EventFrame:
        return EventFrame(self._message(CompletionChoice(index, "", None, None)), "text")

    def _piece(self, choice: CompletionChoice, speed: Timings | UnsetType = UNSET) -> bytes:
        return event(self._message(choice, speed))

    def _message(self, choice: CompletionChoice, speed: Timings | UnsetType = UNSET) -> Completion:
        return self._of([choice], None if self.include_usage else UNSET, speed)

    def _of(
        self,
        choices: list[CompletionChoice],
        usage: Usage | UnsetType | None,
        speed: Timings | UnsetType,
    ) -> Completion:
        identity = self.identity
        return Completion(
            identity.id, "text_completion", identity.created, identity.model, choices, usage, speed
        )
