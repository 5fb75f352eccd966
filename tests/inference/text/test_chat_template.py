"""What templates may use, what they are given, and what they are told apart by."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from inference.text.chat_template import ChatTemplate, default_template
from inference.text.errors import TemplateError, TextError

USER = [{"role": "user", "content": "hi"}]


def render(source: str, messages: list[dict] = USER, **kwargs: object) -> str:
    return ChatTemplate(source, "<s>", "</s>").render(messages, **kwargs)


@pytest.mark.parametrize(
    "source, wanted",
    [
        ("{{ bos_token }}|{{ eos_token }}", "<s>|</s>"),
        ("{{ {'b': '<é&\\'>', 'a': [1, 2.5, none, true]}|tojson }}",
         '{"b": "<é&\'>", "a": [1, 2.5, null, true]}'),
        ("{{ {'a': [1]}|tojson(indent=2) }}", '{\n  "a": [\n    1\n  ]\n}'),
        ("{{ [1, 2]|tojson(separators=(',', ':')) }}", "[1,2]"),
        ("{% for i in range(5) %}{% if i == 3 %}{% break %}{% endif %}"
         "{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "02"),
        ("{{ ' a,b '.strip().split(',')|length }}{{ 'abc'.startswith('a') }}", "2True"),
        ("{% for k, v in {'x': 1}.items() %}{{ k }}={{ v }}{% endfor %}", "x=1"),
        ("{% set ns = namespace(n=0) %}{% for m in [1, 2] %}{% set ns.n = ns.n + m %}{% endfor %}"
         "{{ ns.n }}", "3"),
        ("a{% generation %}b{% endgeneration %}c", "abc"),
        ("a\n  {%- generation -%}  b  {%- endgeneration -%}\nc", "abc"),
        ("  {% if true %}\n  x\n  {% endif %}\ny", "  x\ny"),
        ("{{ tools is none }}{{ undefined_name }}{{ add_generation_prompt }}", "TrueTrue"),
        ("{{ messages[0]['content'] is string }}{{ messages[0].nothing is defined }}", "TrueFalse"),
        ("{{ '<b>' }}", "<b>"),
    ],
)  # fmt: skip
def test_the_dialect(source: str, wanted: str) -> None:
    """transformers' conventions: its filters, Python's methods, trimmed blocks, no escaping."""
    assert render(source) == wanted


def test_variables_are_passed_on() -> None:
    source = "{% if enable_thinking is false %}no{% else %}yes{% endif %}"
    template = ChatTemplate(source)
    assert template.render(USER) == "yes"
    assert template.render(USER, enable_thinking=False) == "no"


def test_the_time_is_told() -> None:
    template = ChatTemplate("{{ strftime_now('%d %b %Y') }}", now=lambda: datetime(2025, 3, 14))
    assert template.render(USER) == "14 Mar 2025"


def test_a_refusal_keeps_the_words_of_the_template() -> None:
    with pytest.raises(TemplateError) as caught:
        render("{{ raise_exception('Roles must alternate!') }}")
    assert caught.value.reason == "Roles must alternate!"
    assert isinstance(caught.value, TextError)


def test_a_syntax_error_is_found_when_the_template_is_made() -> None:
    with pytest.raises(TemplateError, match="SyntaxError"):
        ChatTemplate("{% if %}")


def test_the_conversation_is_not_changed_by_a_template() -> None:
    messages = [{"role": "user", "content": "hi", "extra": [1]}]
    render(
        "{% set x = messages[0].pop('role') %}{% set y = messages[0].extra.append(2) %}", messages
    )
    assert messages == [{"role": "user", "content": "hi", "extra": [1]}]


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(TemplateError, match="plain JSON"):
        render("{{ x }}", x=object())


def test_several_threads_share_a_template() -> None:
    template = ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}")
    conversations = [[{"role": "user", "content": str(i)}] * 20 for i in range(40)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(template.render, conversations)) == [str(i) * 20 for i in range(40)]


def test_its_process_ends_with_it() -> None:
    template = ChatTemplate("x")
    process = template._process._process
    assert process.poll() is None
    del template
    gc.collect()
    assert process.returncode is not None


def test_reasoning_is_open_at_the_end_of_a_prompt() -> None:
    assert ChatTemplate.opens_reasoning("<|im_start|>assistant\n<think>\n")
    assert not ChatTemplate.opens_reasoning("<think>\n\n</think>\n\n")
    assert not ChatTemplate.opens_reasoning("user: what is <think>?\nassistant:")


def test_chatml_stands_in_for_a_missing_template() -> None:
    """S35: every turn, the open turn of the assistant, tool messages as tool responses."""
    template = default_template()
    assert template.is_default and not template.takes_tools
    messages = [
        {"role": "system", "content": "Be brief."},
        *USER,
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": "42"},
    ]
    assert template.render(messages) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
        "<|im_start|>assistant\n<|im_end|>\n"
        "<|im_start|>user\n<tool_response>\n42\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )
    assert template.render(USER, add_generation_prompt=False).endswith("hi<|im_end|>\n")
