"""Each field with each value it must not have: 400, the field named, and nothing given to the engine."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.fakes.runtime import CONTEXT_LEN, FakeServing
from tests.inference.api.wire import Wire

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
USER = {"role": "user", "content": "Hi"}
NOT_A_NUMBER = ("0.5", True, [1], {})
NOT_A_COUNT = (1.5, "1", True, [1], {})
HUGE = 1 << 63

BOTH: dict[str, tuple[object, ...]] = {
    "model": (1, True, ["a"], {}),
    "stream": (1, "true", [], {}),
    "stream_options": (1, "x", [], {"include_usage": 1}, {"include_usage": True}),
    "max_tokens": (*NOT_A_COUNT, 0, -1, HUGE, 10**30),
    "temperature": (*NOT_A_NUMBER, -0.0, -0.001, 2.001, 1e300),
    "top_p": (*NOT_A_NUMBER, -0.0, -0.001, 1.001),
    "top_k": (*NOT_A_COUNT, -2, HUGE),
    "min_p": (*NOT_A_NUMBER, -0.0, -0.001, 1.001),
    "typical_p": (*NOT_A_NUMBER, 0.0, -1.0, 1.001),
    "repeat_penalty": (*NOT_A_NUMBER, 0.0, -1.0, 10.001, 0.0009, 1e-320),
    "repeat_last_n": (*NOT_A_COUNT, -2, HUGE),
    "presence_penalty": (*NOT_A_NUMBER, -0.0, -2.001, 2.001),
    "frequency_penalty": (*NOT_A_NUMBER, -0.0, -2.001, 2.001),
    "logit_bias": (
        1,
        "x",
        [1],
        {"x": 1},
        {"-1": 1},
        {"1.0": 1},
        {"": 1},
        {"1": "x"},
        {"1": True},
        {"1": 100.001},
        {"1": -100.001},
        {"99999": 1},
        {"99999999999": 1},
        {str(i): 1 for i in range(1025)},
    ),
    "seed": (*NOT_A_COUNT, HUGE, -HUGE - 1),
    "stop": (1, True, {}, "", [""], [1], [None], ["a"] * 17, "x" * 257, ["é" * 129], [["a"]]),
    "session_id": (1, True, "", "x" * 129, [], {}),
}
CHAT_ONLY: dict[str, tuple[object, ...]] = {
    "messages": (None, 1, "Hi", {}, [], [1], ["Hi"], [USER] * 4097),
    "max_completion_tokens": (*NOT_A_COUNT, 0, -1, HUGE),
    "logprobs": (1, "true", 0, []),
    "top_logprobs": (*NOT_A_COUNT, -1, 21, HUGE, 5),  # 5: without logprobs
    "chat_template_kwargs": (1, "x", [], {"messages": "x"}, {"enable_thinking": {}}, {"a": 1}),
}
COMPLETION_ONLY: dict[str, tuple[object, ...]] = {
    "prompt": (
        None, 1, True, {}, "", [], [""], [[]], [None], [True], [1.5], ["a", 1], [[1], "a"], [[[1]]],
        [-1], [281], [HUGE], [[1], [281]], ["a"] * 129, ["a", ""],
    ),
    "logprobs": (*NOT_A_COUNT, -1, 21, HUGE),
    "echo": (1, "true", [], {}),
}  # fmt: skip


def rows() -> Iterator[tuple[str, str, object]]:
    for route, own in ((CHAT, CHAT_ONLY), (COMPLETION, COMPLETION_ONLY)):
        for field, values in (BOTH | own).items():
            for value in values:
                yield route, field, value


@pytest.mark.parametrize(
    ("route", "field", "value"), [pytest.param(*r, id=f"{r[1]}-{str(r[2])[:20]}") for r in rows()]
)
def test_it_is_refused_by_name(
    wire: Wire, serving: FakeServing, route: str, field: str, value: object
) -> None:
    good = {"messages": [USER]} if route == CHAT else {"prompt": "Hi"}
    answer = wire.post(route, good | {field: value})
    assert answer.status == 400
    assert answer.error["type"] == "invalid_request_error"
    assert answer.error["param"] is not None
    assert answer.error["param"].split(".")[0].split("[")[0] == field
    assert serving.num_accepted() == 0
    assert serving.num_busy() == 0


EDGES = {
    "max_tokens": (1, 64, None),
    "temperature": (0, 0.0, 2, 2.0, None),
    "top_p": (0, 1, None),
    "top_k": (-1, 0, 1, None),
    "min_p": (0, 1, None),
    "typical_p": (0.001, 1, None),
    "repeat_penalty": (0.001, 10, None),
    "repeat_last_n": (-1, 0, CONTEXT_LEN, None),
    "presence_penalty": (-2, 0, 2, None),
    "frequency_penalty": (-2, 0, 2, None),
    "logit_bias": ({}, {"0": -100, "280": 100}, None),
    "seed": (0, -HUGE, HUGE - 1, None),
    "stop": ("a", [], ["a"] * 16, "x" * 256, "é" * 128, None),
    "session_id": ("x", "x" * 128, None),
    "stream": (False, None),
    "stream_options": (None,),
    "model": ("tiny", "", None),
    "user": ("somebody",),
    "metadata": ({"a": "b"},),
    "never_heard_of": ([{"a": None}],),
}


@pytest.mark.parametrize("route", [CHAT, COMPLETION])
@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in EDGES.items() for value in values]
)
def test_the_ends_of_each_range_are_taken(
    wire: Wire, serving: FakeServing, route: str, field: str, value: object
) -> None:
    """null is the default, and unknown fields are ignored."""
    serving.say("yes")
    good = {"messages": [USER]} if route == CHAT else {"prompt": "Hi"}
    answer = wire.post(route, {"max_tokens": 4} | good | {field: value})
    assert answer.status == 200, answer.body


UNSUPPORTED_IN_CHAT = {
    "n": (2, 0, 16, True, "1"),
    "best_of": (2,),
    "tools": ([{"type": "function", "function": {"name": "f"}}],),
    "tool_choice": ("required", {"type": "function", "function": {"name": "f"}}),
    "functions": ([{"name": "f"}],),
    "function_call": ({"name": "f"},),
    "response_format": ({"type": "json_object"}, {"type": "json_schema", "json_schema": {}}),
    "audio": ({"voice": "x", "format": "mp3"},),
    "modalities": (["audio"], ["text", "audio"]),
    "moderation": ({"model": "x"},),
    "prediction": ({"type": "content", "content": "x"},),
    "web_search_options": ({},),
    "reasoning_effort": ("low", "none"),
    "verbosity": ("low", "high"),
    "store": (True,),
    "service_tier": ("flex", "priority"),
    "prompt_cache_options": ({"mode": "explicit"},),
    "prompt_cache_retention": ("24h",),
    "chat_template": ("{{ messages }}",),
    "adapter": ("x",),
    "lora": ([{"id": 0}],),
    "grammar": ("root ::= 'a'",),
    "json_schema": ({},),
    "guided_json": ({},),
    "guided_regex": ("a",),
    "guided_choice": (["a"],),
    "guided_grammar": ("a",),
    "structured_outputs": ({"json": {}},),
}
UNSUPPORTED_IN_COMPLETIONS = {"n": (2,), "best_of": (2,), "suffix": ("x",), "grammar": ("a",)}


@pytest.mark.parametrize(
    ("route", "field", "value"),
    [
        (route, field, value)
        for route, table in ((CHAT, UNSUPPORTED_IN_CHAT), (COMPLETION, UNSUPPORTED_IN_COMPLETIONS))
        for field, values in table.items()
        for value in values
    ],
)
def test_what_is_not_supported_is_named(
    wire: Wire, serving: FakeServing, route: str, field: str, value: object
) -> None:
    """Never accepted and then ignored."""
    good = {"messages": [USER]} if route == CHAT else {"prompt": "Hi"}
    answer = wire.post(route, good | {field: value})
    assert answer.status == 400
    assert answer.error["param"] == field
    assert answer.error["code"] == "unsupported_parameter"
    assert serving.num_accepted() == 0


def test_defaults_of_unsupported_parameters_are_taken(wire: Wire, serving: FakeServing) -> None:
    """Clients send these with every request; they ask for nothing."""
    serving.say("yes")
    harmless = {
        "n": 1,
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "function_call": "none",
        "response_format": {"type": "text"},
        "modalities": ["text"],
        "store": False,
        "service_tier": "auto",
        "verbosity": "medium",
        "reasoning_effort": None,
        "audio": None,
    }
    assert wire.chat(**harmless).status == 200


BAD_MESSAGES = [
    ({"content": "Hi"}, "messages[0].role"),
    ({"role": "boss", "content": "Hi"}, "messages[0].role"),
    ({"role": 1, "content": "Hi"}, "messages[0].role"),
    ({"role": "user"}, "messages[0].content"),
    ({"role": "user", "content": None}, "messages[0].content"),
    ({"role": "system", "content": None}, "messages[0].content"),
    ({"role": "user", "content": 1}, "messages[0].content"),
    ({"role": "user", "content": {"type": "text"}}, "messages[0].content"),
    ({"role": "user", "content": ["Hi"]}, "messages[0].content[0]"),
    ({"role": "user", "content": [{"text": "Hi"}]}, "messages[0].content[0].type"),
    ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text"),
    (
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
        "messages[0].content[0].type",
    ),
    ({"role": "user", "content": "Hi", "name": 1}, "messages[0].name"),
    ({"role": "assistant", "tool_calls": [{}]}, "messages[0].tool_calls[0].function"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "param"), BAD_MESSAGES)
def test_a_bad_message_is_named(
    wire: Wire, serving: FakeServing, message: object, param: str
) -> None:
    answer = wire.post(CHAT, {"messages": [message]})
    assert answer.status == 400
    assert answer.error["param"] == param
    assert serving.num_accepted() == 0


def test_a_missing_field_is_named(wire: Wire) -> None:
    for route, field in ((CHAT, "messages"), (COMPLETION, "prompt")):
        answer = wire.post(route, {})
        assert answer.status == 400
        assert answer.error["param"] == field


def test_two_different_limits_are_refused(wire: Wire, serving: FakeServing) -> None:
    assert wire.chat(max_tokens=3, max_completion_tokens=4).error["param"] == "max_tokens"
    serving.say("yes")
    assert wire.chat(max_tokens=3, max_completion_tokens=3).status == 200


def test_ten_thousand_stops_are_refused_quickly(wire: Wire) -> None:
    answer = wire.chat(stop=["x"] * 10_000)
    assert answer.error["param"] == "stop"
    assert len(answer.body) < 500


def test_values_are_never_repeated_at_length(wire: Wire) -> None:
    """A message of an error holds no more than the beginning of what was sent."""
    for body in (
        {"messages": [{"role": "user", "content": [{"type": "x" * 9999}]}]},
        {"messages": [USER], "chat_template_kwargs": {"y" * 9999: 1}},
        {"messages": [USER], "model": "z" * 9999, "temperature": json.dumps("x" * 9999)},
    ):
        assert len(wire.post(CHAT, body).body) < 700
