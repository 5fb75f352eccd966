"""From the messages of a request to what a chat template is given. Knows no template and no tokens.

Owns what is wrong with a message whatever the model; fitting messages to a template is the text layer's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from inference.api.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from inference.api.schemas import ContentPart, Message

# What a request may set in a template. Anything else could reach variables of the template itself.
TEMPLATE_SWITCHES = frozenset({"enable_thinking", "thinking", "reasoning_effort"})


def template_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Raises: InvalidRequest, naming the message."""
    return [_template_message(f"messages[{i}]", each) for i, each in enumerate(messages)]


def template_switches(kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Raises: InvalidRequest."""
    unknown = sorted((kwargs or {}).keys() - TEMPLATE_SWITCHES)
    if unknown:
        raise InvalidRequest(
            f"'chat_template_kwargs' may set {', '.join(sorted(TEMPLATE_SWITCHES))}, not"
            f" '{unknown[0][:64]}'.",
            "chat_template_kwargs",
        )
    return dict(kwargs or {})


def _template_message(where: str, message: Message) -> dict[str, Any]:
    if message.content is None and message.role != "assistant":
        raise InvalidRequest(f"'{where}.content' is required.", f"{where}.content")
    made: dict[str, Any] = msgspec.to_builtins(message)
    if isinstance(message.content, list):
        parts = [_part(f"{where}.content[{i}]", part) for i, part in enumerate(message.content)]
        made["content"] = parts
    return {name: value for name, value in made.items() if value is not None or name == "content"}


def _part(where: str, part: ContentPart) -> dict[str, str]:
    texts = {"text": part.text, "refusal": part.refusal}
    if part.type not in texts:
        raise InvalidRequest(
            f"Content parts of type '{part.type[:64]}' are not supported; send text.",
            f"{where}.type",
        )
    text = texts[part.type]
    if text is None:
        raise InvalidRequest(f"'{where}.{part.type}' is required.", f"{where}.{part.type}")
    return {"type": "text", "text": text}
