"""Documented parameters without support here: refused by name, unless they ask for nothing.

Owns the table of their harmless values. A parameter that is accepted and then ignored would change
what a client gets without telling it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inference.api.errors import UnsupportedParameter


@dataclass(frozen=True)
class Unsupported:
    """`harmless` values mean the same as leaving the parameter out. null always does."""

    why: str
    harmless: tuple[Any, ...] = ()


_TOOLS = "tools cannot be called"
_ONE_CHOICE = "each prompt gets one choice"
_TEXT_ONLY = "models read and write text alone"
_SHAPE = "output cannot be constrained to a form"
_ADAPTERS = "adapters cannot be chosen by request"

BOTH: Mapping[str, Unsupported] = {
    "n": Unsupported(_ONE_CHOICE, (1,)),
    "best_of": Unsupported(_ONE_CHOICE, (1,)),
    "adapter": Unsupported(_ADAPTERS),
    "lora": Unsupported(_ADAPTERS, ([],)),
    "grammar": Unsupported(_SHAPE, ("",)),
    "json_schema": Unsupported(_SHAPE),
    "guided_json": Unsupported(_SHAPE),
    "guided_regex": Unsupported(_SHAPE),
    "guided_choice": Unsupported(_SHAPE),
    "guided_grammar": Unsupported(_SHAPE),
    "structured_outputs": Unsupported(_SHAPE),
    "response_format": Unsupported(_SHAPE, ({"type": "text"},)),
    "service_tier": Unsupported("there is one tier", ("auto", "default")),
}
CHAT: Mapping[str, Unsupported] = {
    **BOTH,
    "tools": Unsupported(_TOOLS, ([],)),
    "tool_choice": Unsupported(_TOOLS, ("none", "auto")),
    "functions": Unsupported(_TOOLS, ([],)),
    "function_call": Unsupported(_TOOLS, ("none", "auto")),
    "audio": Unsupported(_TEXT_ONLY),
    "modalities": Unsupported(_TEXT_ONLY, ([], ["text"])),
    "moderation": Unsupported("nothing is moderated"),
    "prediction": Unsupported("predicted output is not used"),
    "web_search_options": Unsupported("nothing is looked up"),
    "reasoning_effort": Unsupported(
        "how long a model thinks is chosen in chat_template_kwargs, if its template can"
    ),
    "verbosity": Unsupported("ask for length in the prompt", ("medium",)),
    "store": Unsupported("nothing is stored", (False,)),
    "prompt_cache_options": Unsupported(
        "prefixes are cached by themselves", ({"mode": "implicit"},)
    ),
    "prompt_cache_retention": Unsupported(
        "prefixes stay in memory while there is room", ("in_memory",)
    ),
    "chat_template": Unsupported("the model's own template is used"),
}
COMPLETION: Mapping[str, Unsupported] = {
    **BOTH,
    "truncation": Unsupported("prompts are never cut", ("disabled",)),
    "suffix": Unsupported("text is continued, not filled in", ("",)),
}


def refuse_unsupported(fields: Mapping[str, Any], table: Mapping[str, Unsupported]) -> None:
    """Raises: UnsupportedParameter."""
    for name in table.keys() & fields.keys():
        value = fields[name]
        if value is not None and not any(_same(value, each) for each in table[name].harmless):
            raise UnsupportedParameter(name, table[name].why)


def _same(value: object, harmless: object) -> bool:
    # True == 1 in Python; on the wire they are different things.
    return type(value) is type(harmless) and value == harmless
