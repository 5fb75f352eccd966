"""The bodies of the two generation routes: names, types and ranges of every supported field.

Owns what can be checked without a model. Unknown fields are ignored; known ones without support are
refused in `unsupported`.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from inference.api.errors import InvalidRequest

MAX_STOPS, MAX_STOP_BYTES = 16, 256
MAX_LOGPROBS = 20
MAX_LOGIT_BIASES = 1024
MAX_MESSAGES, MAX_PROMPTS = 4096, 128
MAX_SESSION_ID_LEN = 128

Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Penalty = Annotated[float, Meta(ge=-2.0, le=2.0)]
TokenCount = Annotated[int, Meta(ge=1, le=1 << 31)]
NumLogprobs = Annotated[int, Meta(ge=0, le=MAX_LOGPROBS)]
TokenId = Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
TokenText = Annotated[str, Meta(pattern=r"^[0-9]{1,10}\Z")]
Bias = Annotated[float, Meta(ge=-100.0, le=100.0)]
SessionId = Annotated[str, Meta(min_length=1, max_length=MAX_SESSION_ID_LEN)]
Scalar = bool | int | float | str | None


class StreamOptions(Struct, frozen=True):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class GenerationFields(Struct, frozen=True, kw_only=True):
    """What both routes share. None stands for the default."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: TokenCount | None = None
    temperature: Annotated[float, Meta(ge=0.0, le=2.0)] | None = None
    top_p: Share | None = None
    top_k: Annotated[int, Meta(ge=-1, le=1 << 20)] | None = None
    min_p: Share | None = None
    typical_p: Annotated[float, Meta(gt=0.0, le=1.0)] | None = None
    repeat_penalty: Annotated[float, Meta(ge=0.001, le=10.0)] | None = None
    repeat_last_n: Annotated[int, Meta(ge=-1, le=1 << 20)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: Annotated[dict[TokenText, Bias], Meta(max_length=MAX_LOGIT_BIASES)] | None = None
    seed: Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)] | None = None
    stop: str | Annotated[list[str], Meta(max_length=MAX_STOPS)] | None = None
    session_id: SessionId | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            # It passes every "at least 0", and is somebody's bug.
            if isinstance(value, float) and value == 0 and math.copysign(1.0, value) < 0:
                raise InvalidRequest(f"'{name}' is a negative zero; send 0.", name)
        for stop in self.stops:
            if not 0 < len(stop.encode()) <= MAX_STOP_BYTES:
                raise InvalidRequest(
                    f"A stop string must have 1 to {MAX_STOP_BYTES} bytes.", "stop"
                )
        if self.stream_options is not None and not self.stream:
            raise InvalidRequest("'stream_options' needs 'stream': true.", "stream_options")

    @property
    def stops(self) -> tuple[str, ...]:
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)


class ContentPart(Struct, frozen=True):
    type: str
    text: str | None = None
    refusal: str | None = None


class FunctionCall(Struct, frozen=True):
    name: str
    arguments: str | dict[str, object] = ""


class ToolCall(Struct, frozen=True):
    function: FunctionCall
    id: str | None = None
    type: Literal["function"] = "function"


class Message(Struct, frozen=True):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[ToolCall] | None = None
    reasoning_content: str | None = None


class ChatRequest(GenerationFields, frozen=True, kw_only=True):
    messages: Annotated[list[Message], Meta(min_length=1, max_length=MAX_MESSAGES)]
    max_completion_tokens: TokenCount | None = None
    logprobs: bool | None = None
    top_logprobs: NumLogprobs | None = None
    chat_template_kwargs: dict[str, Scalar] | None = None
    truncation: Literal["auto", "disabled"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.top_logprobs and not self.logprobs:
            raise InvalidRequest("'top_logprobs' needs 'logprobs': true.", "top_logprobs")
        both = self.max_tokens is not None and self.max_completion_tokens is not None
        if both and self.max_tokens != self.max_completion_tokens:
            raise InvalidRequest(
                "'max_tokens' and 'max_completion_tokens' differ; send one of them.", "max_tokens"
            )

    @property
    def may_be_capped(self) -> bool:
        """Whether old turns may be left out of a conversation that is too long for the model."""
        return self.truncation != "disabled"

    @property
    def num_logprobs(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None


class CompletionRequest(GenerationFields, frozen=True, kw_only=True):
    prompt: str | Annotated[list[str | TokenId | list[TokenId]], Meta(min_length=1)]
    echo: bool | None = None
    logprobs: NumLogprobs | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.echo and self.logprobs is not None:
            raise InvalidRequest("'echo' cannot be combined with 'logprobs'.", "echo")
        if len(self.prompts) > MAX_PROMPTS:
            raise InvalidRequest(f"'prompt' holds more than {MAX_PROMPTS} prompts.", "prompt")

    @property
    def prompts(self) -> tuple[str | list[int], ...]:
        """One a choice: texts, or lists of token ids."""
        if isinstance(self.prompt, str):
            return (self.prompt,)
        texts = [part for part in self.prompt if isinstance(part, str)]
        ids = [part for part in self.prompt if isinstance(part, int)]
        lists = [part for part in self.prompt if isinstance(part, list)]
        if len(ids) == len(self.prompt):
            return (ids,)
        if len(texts) == len(self.prompt):
            return tuple(texts)
        if len(lists) == len(self.prompt):
            return tuple(lists)
        raise InvalidRequest(
            "'prompt' must be a string, a list of strings, a list of token ids or a list of such"
            " lists.",
            "prompt",
        )


CHAT_DECODER = msgspec.json.Decoder(ChatRequest)
COMPLETION_DECODER = msgspec.json.Decoder(CompletionRequest)
