"""Messages as clients send them are fitted to what a template takes."""

from __future__ import annotations

import pytest

from inference.text.chat_template import ChatTemplate
from inference.text.errors import TemplateError

PLAIN = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"
PARTS = (
    "{% for m in messages %}[{% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}]{% endfor %}"
)
ONLY_PARTS = "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"
CALLS = "{{% for m in messages %}}{{% for c in m.tool_calls %}}{}{{% endfor %}}{{% endfor %}}"
OBJECTS = CALLS.format("{{ c.function.arguments|tojson }}")
TEXTS = CALLS.format("{{ c.function.arguments }}")


def parts(*texts: str) -> list[dict]:
    return [{"role": "user", "content": [{"type": "text", "text": text} for text in texts]}]


def call(arguments: object) -> list[dict]:
    function = {"name": "f", "arguments": arguments}
    return [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": function}]}
    ]


def test_parts_are_joined_where_text_is_wanted() -> None:
    assert ChatTemplate(PLAIN).render(parts("one", "two")) == "[user:one\ntwo]"


@pytest.mark.parametrize("source, wanted", [(PARTS, "[onetwo]"), (ONLY_PARTS, "onetwo")])
def test_parts_are_kept_where_the_template_takes_them(source: str, wanted: str) -> None:
    assert ChatTemplate(source).render(parts("one", "two")) == wanted


def test_a_part_that_is_no_text_is_refused_by_its_type() -> None:
    picture = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
    with pytest.raises(TemplateError, match="no place for a content part of type 'image_url'"):
        ChatTemplate(PLAIN).render(picture)


@pytest.mark.parametrize("message", [{"content": None}, {}])
def test_no_content_is_an_empty_text(message: dict) -> None:
    assert ChatTemplate(PLAIN).render([{"role": "assistant"} | message]) == "[assistant:]"


def test_null_is_kept_where_the_template_asks_for_it() -> None:
    source = "{% for m in messages %}{% if m.content is none %}null{% endif %}{% endfor %}"
    assert ChatTemplate(source).render([{"role": "assistant", "content": None}]) == "null"


def test_a_developer_is_a_system_unless_the_template_knows_it() -> None:
    messages = [{"role": "developer", "content": "x"}]
    assert ChatTemplate(PLAIN).render(messages) == "[system:x]"
    assert ChatTemplate(PLAIN + "{# developer #}").render(messages) == "[developer:x]"


@pytest.mark.parametrize("arguments", ['{"a": 1}', {"a": 1}])
def test_arguments_are_objects_where_json_is_made_of_them(arguments: object) -> None:
    """OpenAI's clients send JSON text, which would be quoted once more."""
    assert ChatTemplate(OBJECTS).render(call(arguments)) == '{"a": 1}'


def test_arguments_are_text_where_they_are_printed() -> None:
    assert ChatTemplate(TEXTS).render(call('{"a": 1}')) == '{"a": 1}'


@pytest.mark.parametrize("arguments", ["no json", "[1]", "7"])
def test_arguments_that_are_no_object_stay_text(arguments: str) -> None:
    assert ChatTemplate(OBJECTS).render(call(arguments)) == f'"{arguments}"'
