"""From the messages of a request to what chat templates read. Knows no template and no tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from inference.api.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from inference.api.schemas import ContentPart, Message, ToolCall

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
    made: dict[str, Any] = {
        # Newer clients call the system role by its new name; templates do not know it.
        "role": "system" if message.role == "developer" else message.role,
        "content": _text(f"{where}.content", message.content),
    }
    if message.name is not None:
        made["name"] = message.name
    if message.tool_call_id is not None:
        made["tool_call_id"] = message.tool_call_id
    if message.reasoning_content is not None:
        made["reasoning_content"] = message.reasoning_content
    if message.tool_calls:
        made["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    return made


def _text(where: str, content: str | Sequence[ContentPart] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(_part_text(f"{where}[{i}]", part) for i, part in enumerate(content))


def _part_text(where: str, part: ContentPart) -> str:
    text = {"text": part.text, "refusal": part.refusal}
    if part.type not in text:
        raise InvalidRequest(
            f"Content parts of type '{part.type[:64]}' are not supported; send text.",
            f"{where}.type",
        )
    found = text[part.type]
    if found is None:
        raise InvalidRequest(f"'{where}.{part.type}' is required.", f"{where}.{part.type}")
    return found


def _tool_call(call: ToolCall) -> dict[str, Any]:
    arguments: object = call.function.arguments
    if isinstance(arguments, str):
        # Templates print an object in the model's own notation; on the wire it is text.
        try:
            arguments = msgspec.json.decode(arguments, type=dict[str, Any])
        except msgspec.DecodeError:
            arguments = call.function.arguments
    made: dict[str, Any] = {
        "type": "function",
        "function": {"name": call.function.name, "arguments": arguments},
    }
    if call.id is not None:
        made["id"] = call.id
    return made
