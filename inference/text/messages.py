"""Chat messages as a template wants them: what OpenAI's clients send, fitted to what it can take.

Knows the shapes of messages and three traits of a template; renders nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inference.text.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Message = dict[str, Any]


@dataclass(frozen=True)
class TemplateTraits:
    """takes_parts: content may be a list of parts. takes_argument_text: a call's arguments are wanted
    as JSON text rather than as an object. knows_null_content: null differs from an empty string.
    knows_developer: the role "developer" has a meaning."""

    takes_parts: bool
    takes_argument_text: bool
    knows_null_content: bool
    knows_developer: bool


def fit_messages(messages: Sequence[Mapping[str, Any]], traits: TemplateTraits) -> list[Message]:
    """Raises: TemplateError, when a part is of a type the template has no place for."""
    return [_fit_message(message, traits) for message in messages]


def _fit_message(message: Mapping[str, Any], traits: TemplateTraits) -> Message:
    fitted = dict(message)
    if fitted.get("role") == "developer" and not traits.knows_developer:
        fitted["role"] = "system"
    content = fitted.get("content")
    if content is None:
        # Most templates would print none as a word, or fail.
        fitted["content"] = None if traits.knows_null_content else ""
    elif isinstance(content, list) and not traits.takes_parts:
        fitted["content"] = "\n".join(_part_text(part) for part in content)
    calls = fitted.get("tool_calls")
    if isinstance(calls, list):
        fitted["tool_calls"] = [_fit_call(call, traits) for call in calls]
    elif calls is None:
        fitted.pop("tool_calls", None)
    return fitted


def _part_text(part: object) -> str:
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        text: str = part["text"]
        return text
    kind = part.get("type") if isinstance(part, dict) else type(part).__name__
    raise TemplateError(f"It has no place for a content part of type '{kind}'.")


def _fit_call(call: Any, traits: TemplateTraits) -> Any:
    if not isinstance(call, dict) or not isinstance(call.get("function"), dict):
        return call
    function = call["function"]
    arguments = function.get("arguments")
    if not isinstance(arguments, str) or traits.takes_argument_text:
        return call
    try:
        parsed = json.loads(arguments or "{}")
    except ValueError:
        return call
    if not isinstance(parsed, dict):
        return call
    return {**call, "function": {**function, "arguments": parsed}}
