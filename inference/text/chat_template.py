"""Chat templates: messages to the prompt text a model was trained on. The one place that renders any.

Owns what one rendering may cost. Knows nothing about tokens; messages are fitted by `messages`.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from inference.text.errors import TemplateError, TemplateLimitExceeded
from inference.text.messages import TemplateTraits, fit_messages
from inference.text.template_process import RenderLimits, TemplateProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# What a rendering may cost. The templates of common models need under a hundred units of fuel and 20 us a
# message, and less than one unit a character.
_FUEL, _FUEL_PER_MESSAGE, _FUEL_PER_CHAR = 150_000, 4_000, 4
_CPU_S, _CPU_PER_MESSAGE_S, _CPU_PER_CHAR_S = 0.05, 0.0005, 2e-6
_MEMORY_BYTES, _MEMORY_PER_CHAR = 64 << 20, 32
MAX_PROMPT_LEN = 1 << 20  # beside the characters of the conversation itself

_THINK = "<think>"
_NEEDLE = "zq7text"
_JSON_NEEDLE, _REPR_NEEDLE = '{"zq7name": 1}', "{'zq7name': 1}"
_NULL_CONTENT = re.compile(r"content\W*\s+(?:is\s+(?:not\s+)?|[!=]=\s*)none\b", re.IGNORECASE)
_DEVELOPER = re.compile(r"\bdeveloper\b")

CHATML = """\
{%- for message in messages %}
{%- if message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- endif %}"""


class ChatTemplate:
    """Thread-safe. `is_default`: the model file brought no template, and ChatML stands in."""

    def __init__(
        self,
        source: str,
        bos_token: str = "",
        eos_token: str = "",
        *,
        is_default: bool = False,
        now: Callable[[], datetime] = datetime.now,
        process: TemplateProcess | None = None,
    ) -> None:
        """process: of this source, where one runs already.

        Raises: TemplateError, when the source is too long, cannot be compiled or is a trap.
        """
        self.is_default = is_default
        self.takes_tools = re.search(r"\btools\b", source) is not None
        self._source = source
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._process = process or TemplateProcess(source)
        self._now = now
        self._traits = self._find_traits()

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **kwargs: object,
    ) -> str:
        """The prompt. `kwargs` are further variables of the template, such as enable_thinking.

        Raises: TemplateError, with the template's own words where it refuses the conversation.
        """
        return self._render(
            fit_messages(messages, self._traits),
            tools=list(tools) if tools else None,
            add_generation_prompt=add_generation_prompt,
            **kwargs,
        )

    @staticmethod
    def opens_reasoning(prompt: str) -> bool:
        """Whether the prompt ends inside an open `<think>`, so that the model begins by thinking."""
        return prompt.rstrip().endswith(_THINK)

    def _render(self, messages: list[dict[str, Any]], **variables: object) -> str:
        num_chars = _num_chars(messages) + _num_chars(variables)
        limits = RenderLimits(
            fuel=_FUEL + _FUEL_PER_MESSAGE * len(messages) + _FUEL_PER_CHAR * num_chars,
            cpu_s=_CPU_S + _CPU_PER_MESSAGE_S * len(messages) + _CPU_PER_CHAR_S * num_chars,
            memory_bytes=_MEMORY_BYTES + _MEMORY_PER_CHAR * num_chars,
        )
        context = {**variables, "messages": messages, **self._tokens}
        prompt = self._process.render(context, self._now(), limits)
        if len(prompt) > MAX_PROMPT_LEN + num_chars:
            raise TemplateError(f"It made a prompt of {len(prompt)} characters.")
        return prompt

    def _find_traits(self) -> TemplateTraits:
        as_text = self._try([{"role": "user", "content": _NEEDLE}])
        as_parts = self._try([{"role": "user", "content": [{"type": "text", "text": _NEEDLE}]}])
        with_object = self._try_call(json.loads(_JSON_NEEDLE))
        # An object fails, or is printed as Python prints one, where text is wanted.
        object_spoils = not with_object or _REPR_NEEDLE in with_object
        return TemplateTraits(
            takes_parts=_NEEDLE in as_parts and as_parts == (as_text or as_parts),
            takes_argument_text=object_spoils and _JSON_NEEDLE in self._try_call(_JSON_NEEDLE),
            knows_null_content=_NULL_CONTENT.search(self._source) is not None,
            knows_developer=_DEVELOPER.search(self._source) is not None,
        )

    def _try_call(self, arguments: object) -> str:
        function = {"name": "call", "arguments": arguments}
        call = {"id": "call00000", "type": "function", "function": function}
        content = None if _NULL_CONTENT.search(self._source) else ""
        return self._try(
            [
                {"role": "user", "content": "-"},
                {"role": "assistant", "content": content, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call00000", "name": "call", "content": "-"},
            ]
        )

    def _try(self, messages: list[dict[str, Any]]) -> str:
        """What the template makes of these messages; "" when it refuses them.

        Raises: TemplateLimitExceeded; a template that cannot afford two words will afford nothing.
        """
        try:
            return self._render(messages, tools=None, add_generation_prompt=True)
        except TemplateLimitExceeded:
            raise
        except TemplateError:
            return ""


def default_template(
    bos_token: str = "", eos_token: str = "", process: TemplateProcess | None = None
) -> ChatTemplate:
    """ChatML, which most chat models of the last years know and any vocabulary can spell."""
    return ChatTemplate(CHATML, bos_token, eos_token, is_default=True, process=process)


def _num_chars(value: object) -> int:
    """Characters in all strings of a JSON-like value; other values count as eight."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(_num_chars(key) + _num_chars(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return sum(map(_num_chars, value))
    return 8
