"""From a token stream to pieces of text: whole characters, no stop string, reasoning apart.

Owns the finish reason and the count of tokens that make up the text. Knows neither route's objects.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from inference.api.errors import GenerationFailed
from inference.api.held import held
from inference.api.idle_times import IdleTimes
from inference.engine.params import FinishReason, Progress, SequenceRequest
from inference.text.channels import CONTENT, ChannelSplitter
from inference.text.detokenizer import Detokenizer
from inference.text.stop import StopMatcher

if TYPE_CHECKING:
    from collections.abc import Iterable

    from inference.api.request_record import ChoiceRecord
    from inference.engine.params import Token
    from inference.runtime import ServedReplica
    from inference.text.tokenizer import Tokenizer

_FAILURES = (FinishReason.ERROR, FinishReason.ABORTED)


class PlacedToken(Struct, frozen=True):
    """A token of the text and where in the text it begins, in characters."""

    token: Token
    offset: int


class Delta(Struct, frozen=True):
    """What one step added. `tokens` make up text given so far, not always exactly this delta's."""

    content: str = ""
    reasoning: str = ""
    tokens: tuple[PlacedToken, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.content or self.reasoning or self.tokens)


@dataclass(frozen=True)
class Ending:
    """The last item of every choice that did not fail.

    num_completion_tokens make up the text; num_sampled_tokens are those and what ended it.
    """

    finish_reason: Literal["stop", "length"]
    num_prompt_tokens: int
    num_cached_tokens: int
    num_completion_tokens: int
    num_sampled_tokens: int
    progress: Progress


Item = Delta | Ending


class TextAssembly:
    """One sequence's tokens, put together as they come."""

    def __init__(
        self, tokenizer: Tokenizer, stops: tuple[str, ...], splitter: ChannelSplitter | None
    ) -> None:
        self._end_ids, self._splitter = tokenizer.end_ids, splitter
        # A chat answer begins a text; a completion goes on with one.
        self._detokenizer = Detokenizer(tokenizer, starts_text=splitter is not None)
        self._stop = StopMatcher(stops)
        self._unplaced: deque[PlacedToken] = deque()  # their text may still be cut off by a stop
        self._decoded_len = self._safe_len = 0
        self.num_tokens = 0
        self.num_dropped = 0  # tokens that came after a stop string

    @property
    def is_stopped(self) -> bool:
        return self._stop.hit is not None

    def push(self, tokens: Iterable[Token]) -> Delta:
        """Tokens after a stop string are dropped, and end ids have no text."""
        safe = ""
        for token in tokens:
            if self.is_stopped:
                self.num_dropped += 1
                continue
            if token.id in self._end_ids:
                break
            self._unplaced.append(PlacedToken(token, self._decoded_len))
            safe += self._check(self._detokenizer.push(token.id))
        return self._delta(self._split(safe), self._take_placed())

    def finish(self) -> Delta:
        """What was held back: half a character, the beginning of a stop string or of a marker."""
        safe = "" if self.is_stopped else self._check(self._detokenizer.flush())
        if not self.is_stopped:
            tail = self._stop.flush()
            self._safe_len += len(tail)
            safe += tail
        pieces = self._split(safe) + (self._splitter.flush() if self._splitter else [])
        placed = self._take_placed()
        if not self.is_stopped:
            placed += self._take_rest()
        return self._delta(pieces, placed)

    def _check(self, text: str) -> str:
        self._decoded_len += len(text)
        safe = self._stop.push(text)
        self._safe_len += len(safe)
        return safe

    def _split(self, text: str) -> list[tuple[str, str]]:
        return self._splitter.push(text) if self._splitter else [(CONTENT, text)]

    def _take_placed(self) -> tuple[PlacedToken, ...]:
        """Tokens whose text begins within what is sure to be returned."""
        placed = []
        while self._unplaced and self._unplaced[0].offset < self._safe_len:
            placed.append(self._unplaced.popleft())
        self.num_tokens += len(placed)
        return tuple(placed)

    def _take_rest(self) -> tuple[PlacedToken, ...]:
        rest = tuple(self._unplaced)
        self._unplaced.clear()
        self.num_tokens += len(rest)
        return rest

    @staticmethod
    def _delta(pieces: list[tuple[str, str]], tokens: tuple[PlacedToken, ...]) -> Delta:
        content = reasoning = ""
        for channel, text in pieces:
            if channel == CONTENT:
                content += text
            else:
                reasoning += text
        return Delta(content, reasoning, tokens)


async def generate(
    replica: ServedReplica,
    request: SequenceRequest,
    stops: tuple[str, ...],
    splitter: ChannelSplitter | None,
    record: ChoiceRecord,
    idle_s: float = math.inf,
) -> AsyncGenerator[Item | None, None]:
    """Submit the sequence and give its text, then its ending, keeping record of both.

    None whenever there was no text for idle_s, though tokens may have come.

    Raises: EngineError, when it is refused or waits for too long; GenerationFailed.
    """
    with record:
        stream = replica.worker.submit(request)
        held.get().callback(stream.abort)
        record.submitted(stream)
        assembly = TextAssembly(replica.text.tokenizer, stops, splitter)
        with IdleTimes(idle_s, stream.nudge) as idle_times:
            async for tokens in stream:
                if not tokens:
                    yield None
                    continue
                record.took_tokens()
                delta = assembly.push(tokens)
                if delta:
                    idle_times.news()
                    yield delta
                if assembly.is_stopped:
                    stream.abort(num_unused=assembly.num_dropped)
                    break
        finish = stream.finish
        if not assembly.is_stopped and (finish is None or finish.reason in _FAILURES):
            raise GenerationFailed(finish.message if finish else "")
        last = assembly.finish()
        if last:
            yield last
        is_cut = finish is not None and finish.reason is FinishReason.LENGTH
        reason: Literal["stop", "length"] = (
            "length" if is_cut and not assembly.is_stopped else "stop"
        )
        usage = stream.usage
        record.ended(reason)
        yield Ending(
            finish_reason=reason,
            num_prompt_tokens=usage.num_prompt_tokens,
            num_cached_tokens=usage.num_cached_tokens,
            num_completion_tokens=assembly.num_tokens,
            num_sampled_tokens=usage.num_output_tokens,
            progress=stream.progress,
        )
