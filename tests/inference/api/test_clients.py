"""Requests as particular clients send them to these routes, recorded in form and answered as they need."""

from __future__ import annotations

import pytest

from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire

CHAT = "/v1/chat/completions"
USER = {"role": "user", "content": "Hi"}

ANSWERED = {
    "LangChain ChatOpenAI": {
        "messages": [USER],
        "model": "tiny",
        "max_completion_tokens": 50,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.7,
        "n": 1,
    },
    "Open WebUI": {
        "stream": True,
        "model": "tiny",
        "messages": [{"role": "system", "content": "Be kind."}, USER],
        "stream_options": {"include_usage": True},
        "metadata": {"chat_id": "1"},
        "user": "somebody",
    },
    "a reasoning-model client": {
        "messages": [{"role": "developer", "content": "Be brief."}, USER],
        "max_completion_tokens": 50,
        "store": False,
        "reasoning_effort": None,
    },
    "aichat after a tool call": {
        "messages": [
            USER,
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "now", "arguments": "{}"},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": None, "content": "12:00"},
        ],
        "temperature": None,
        "top_p": None,
    },
    "Home Assistant": {
        "messages": [{"role": "system", "content": "You control lights."}, USER],
        "model": "tiny",
        "max_tokens": 50,
        "top_p": 1,
        "temperature": 1,
        "user": "01J",
        "stream": True,
        "tools": [],
    },
    "Cline": {
        "model": "tiny",
        "messages": [
            {"role": "system", "content": "You are Cline."},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "!"}]},
        ],
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    },
    "aider": {"model": "openai/tiny", "messages": [USER], "temperature": 0, "stream": True},
    "llama.cpp's own page": {
        "messages": [USER],
        "stream": True,
        "cache_prompt": True,
        "timings_per_token": True,
        "samplers": ["top_k"],
        "top_k": 40,
        "min_p": 0.05,
        "repeat_last_n": 64,
        "repeat_penalty": 1,
    },
}  # fmt: skip


@pytest.mark.parametrize("client", ANSWERED)
def test_it_is_answered(wire: Wire, serving: FakeServing, client: str) -> None:
    body = ANSWERED[client]
    serving.say("yes")
    answer = wire.post(CHAT, body)
    assert answer.status == 200, answer.body
    if not body.get("stream"):
        assert answer.json["choices"][0]["message"]["content"] == "yes"
        return
    texts = [c["choices"][0]["delta"].get("content", "") for c in answer.chunks if c["choices"]]
    assert "".join(texts) == "yes"
    assert any(c.get("usage") for c in answer.chunks) == ("stream_options" in body)


REFUSED = {
    "Continue's autocompletion": ("/v1/completions", {"prompt": "a", "suffix": "b"}, "suffix"),
    "Cursor's Responses body": (CHAT, {"model": "tiny", "input": "Hi", "tools": []}, "messages"),
    "tools the server cannot call": (
        CHAT,
        {"messages": [USER], "tools": [{"type": "function", "function": {"name": "f"}}]},
        "tools",
    ),
    "LangChain's structured output": (
        CHAT,
        {
            "messages": [USER],
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
        },
        "response_format",
    ),
    "a picture": (
        CHAT,
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "data:,"}}],
                }
            ]
        },
        "messages[0].content[0].type",
    ),
}


@pytest.mark.parametrize("client", REFUSED)
def test_it_is_refused_by_name(wire: Wire, client: str) -> None:
    """Never silently dropped."""
    path, body, param = REFUSED[client]
    answer = wire.post(path, body)
    assert answer.status == 400
    assert answer.error["param"] == param


def test_clients_without_discovery_find_the_context_length(wire: Wire) -> None:
    """Cline and its kin read it from the list of models."""
    (entry,) = wire.get("/v1/models").json["data"]
    assert entry["max_model_len"] == entry["context_length"] == 512


def test_an_overflow_says_so_in_the_words_clients_look_for(wire: Wire) -> None:
    answer = wire.chat("x " * 600)
    assert answer.error["code"] == "context_length_exceeded"
    assert "maximum context length" in answer.error["message"]
