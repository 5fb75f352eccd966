"""From a request's messages or prompts to sequences the engine can take, before any is submitted.

Owns rendering, encoding, the fit into the context and the default length of answers. Plain computing,
long for long prompts: called off the event loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from inference.api.errors import InvalidRequest
from inference.api.messages import template_messages, template_switches
from inference.engine.errors import ContextExceeded, EmptyPrompt

if TYPE_CHECKING:
    from inference.api.schemas import ChatRequest, CompletionRequest
    from inference.runtime import ServedReplica

DEFAULT_COMPLETION_TOKENS = 16  # OpenAI's, for the older route


@dataclass(frozen=True)
class Prompt:
    """One choice's input. `echo` is put in front of the answer's text."""

    ids: tuple[int, ...]
    max_tokens: int
    echo: str = ""
    opens_reasoning: bool = False


def chat_prompt(request: ChatRequest, replica: ServedReplica) -> Prompt:
    """Raises: InvalidRequest, TemplateError, ContextExceeded."""
    template = replica.text.chat_template
    text = template.render(
        template_messages(request.messages), **template_switches(request.chat_template_kwargs)
    )
    ids = tuple(replica.text.encode_chat(text))
    wanted = request.max_completion_tokens or request.max_tokens
    return Prompt(
        ids=ids,
        max_tokens=fitting(len(ids), wanted, replica.context_len, default=replica.context_len),
        opens_reasoning=template.opens_reasoning(text),
    )


def completion_prompts(request: CompletionRequest, replica: ServedReplica) -> tuple[Prompt, ...]:
    """Raises: InvalidRequest, EmptyPrompt, ContextExceeded."""
    return tuple(_completion_prompt(each, request, replica) for each in request.prompts)


def _completion_prompt(
    given: str | list[int], request: CompletionRequest, replica: ServedReplica
) -> Prompt:
    text = replica.text
    if isinstance(given, str):
        ids, echo = tuple(text.encode_chat(given)), given
    else:
        ids = _known_ids(given, text.tokenizer.vocab_size)
        echo = text.tokenizer.decode(ids) if request.echo else ""
    if not ids:
        raise EmptyPrompt
    default = DEFAULT_COMPLETION_TOKENS
    max_tokens = fitting(len(ids), request.max_tokens, replica.context_len, default=default)
    return Prompt(ids, max_tokens, echo if request.echo else "")


def fitting(num_prompt_tokens: int, wanted: int | None, context_len: int, *, default: int) -> int:
    """Tokens to generate: as many as wanted, or the default as far as the context has room.

    Raises: ContextExceeded.
    """
    room = context_len - num_prompt_tokens
    max_tokens = min(default, room) if wanted is None else wanted
    if max_tokens > room or room < 1:
        raise ContextExceeded(num_prompt_tokens, max(max_tokens, 1), context_len)
    return max_tokens


def _known_ids(ids: list[int], vocab_size: int) -> tuple[int, ...]:
    for token_id in ids:
        if token_id >= vocab_size:
            raise InvalidRequest(
                f"'prompt' holds token {token_id}; this model's ids run from 0 to {vocab_size - 1}.",
                "prompt",
            )
    return tuple(ids)
