"""From a request's messages or prompts to sequences the engine can take, before any is submitted.

Owns rendering, encoding, the fit into the context, when a conversation is capped, and the default
length of answers. Plain computing, long for long prompts: called off the event loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from inference.api.capping import Rendered, without_oldest_turns
from inference.api.errors import InvalidRequest
from inference.api.messages import template_messages, template_switches
from inference.engine.errors import ContextExceeded, EmptyPrompt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from inference.api.schemas import ChatRequest, CompletionRequest
    from inference.runtime import ServedReplica

DEFAULT_COMPLETION_TOKENS = 16  # OpenAI's, for the older route
# Kept for the answer of a conversation that could be shorter, where nobody says how much is wanted.
ANSWER_ROOM, ANSWER_SHARE = 512, 8


@dataclass(frozen=True)
class Prompt:
    """One choice's input. `echo` is put in front of the answer's text.

    num_dropped_messages: old ones that were left out, so that the rest fits.
    """

    ids: tuple[int, ...]
    max_tokens: int
    echo: str = ""
    opens_reasoning: bool = False
    num_dropped_messages: int = 0

    @property
    def is_capped(self) -> bool:
        return self.num_dropped_messages > 0


def chat_prompt(request: ChatRequest, replica: ServedReplica) -> Prompt:
    """Without the oldest turns where the whole conversation does not fit, unless that is unwanted.

    Raises: InvalidRequest, TemplateError, ContextExceeded.
    """
    template, context_len = replica.text.chat_template, replica.context_len
    messages = template_messages(request.messages)
    switches = template_switches(request.chat_template_kwargs)
    wanted = request.max_completion_tokens or request.max_tokens

    def render(some: Sequence[dict[str, Any]]) -> Rendered:
        text = template.render(some, **switches)
        return Rendered(text, tuple(replica.text.encode_chat(text)))

    whole = render(messages)
    made = whole
    room = min(ANSWER_ROOM, context_len // ANSWER_SHARE) if wanted is None else wanted
    if request.may_be_capped and len(whole.ids) + room > context_len:
        made = without_oldest_turns(messages, whole, context_len - room, render)
        if wanted is None and len(made.ids) + room > context_len > len(whole.ids):
            made = whole  # little room for an answer, but nothing would make enough
    num_tokens = len(made.ids)
    return Prompt(
        ids=made.ids,
        max_tokens=fitting(
            num_tokens, wanted, context_len, default=context_len, was_capped=made is not whole
        ),
        opens_reasoning=template.opens_reasoning(made.text),
        num_dropped_messages=made.num_dropped,
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


def fitting(
    num_prompt_tokens: int,
    wanted: int | None,
    context_len: int,
    *,
    default: int,
    was_capped: bool = False,
) -> int:
    """Tokens to generate: as many as wanted, or the default as far as the context has room.

    Raises: ContextExceeded.
    """
    room = context_len - num_prompt_tokens
    max_tokens = min(default, room) if wanted is None else wanted
    if max_tokens > room or room < 1:
        raise ContextExceeded(
            num_prompt_tokens, max(max_tokens, 1), context_len, was_capped=was_capped
        )
    return max_tokens


def _known_ids(ids: list[int], vocab_size: int) -> tuple[int, ...]:
    for token_id in ids:
        if token_id >= vocab_size:
            raise InvalidRequest(
                f"'prompt' holds token {token_id}; this model's ids run from 0 to {vocab_size - 1}.",
                "prompt",
            )
    return tuple(ids)
