"""Streams, byte by byte: framing, the order of chunks, pings, and failures after the status was sent."""

from __future__ import annotations

import time

import pytest

from tests.fakes.executor import Gate
from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire, read_answer, read_until

USER = {"role": "user", "content": "Hi"}


def test_it_works(wire: Wire, serving: FakeServing) -> None:
    """S38: role, then content, then an empty delta with the reason, then [DONE]."""
    serving.say("the answer")
    answer = wire.chat(stream=True)
    assert answer.status == 200
    chunks = answer.chunks
    choices = [chunk["choices"][0] for chunk in chunks]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert choices[0]["finish_reason"] is None
    assert choices[-1]["delta"] == {}
    assert choices[-1]["finish_reason"] == "stop"
    assert "".join(c["delta"]["content"] for c in choices[1:-1]) == "the answer"
    assert all(c["delta"].keys() == {"content"} for c in choices[1:-1])
    assert all(c["finish_reason"] is None for c in choices[:-1])
    assert {c["index"] for c in choices} == {0}
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1


def test_headers_keep_proxies_from_buffering(wire: Wire, serving: FakeServing) -> None:
    serving.say("x")
    headers = wire.chat(stream=True).headers
    assert headers["content-type"] == "text/event-stream"
    assert headers["cache-control"] == "no-cache"
    assert headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in headers


def test_framing_is_one_data_line_and_an_empty_one(wire: Wire, serving: FakeServing) -> None:
    """Each event is `data: `, one JSON object, and exactly two line feeds, also when the text has some."""
    serving.say("a\n\nb\r\n")
    answer = wire.chat(stream=True)
    body = answer.body.decode()
    *_, last, done, rest = body.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    assert '"finish_reason":"stop"}]' in last
    assert "\r" not in body
    assert all(line.startswith("data: ") for line in body.split("\n") if line)
    text = "".join(c["choices"][0]["delta"].get("content", "") for c in answer.chunks)
    assert text == "a\n\nb\r\n"


def test_usage_comes_only_when_asked_for(wire: Wire, serving: FakeServing) -> None:
    """One more chunk without choices; null in all others. Not asked for: no such field at all."""
    ids = serving.say("the answer")
    *others, last = wire.chat(stream=True, stream_options={"include_usage": True}).chunks
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == len(ids)
    assert last["usage"]["total_tokens"] == last["usage"]["prompt_tokens"] + len(ids)
    assert all(chunk["usage"] is None for chunk in others)
    assert others[-1]["choices"][0]["finish_reason"] == "stop"
    assert all("usage" not in chunk for chunk in wire.chat(stream=True).chunks)


def test_characters_come_whole(wire: Wire, serving: FakeServing) -> None:
    """Each byte of 🙂 is a token of its own; no chunk holds a piece of the character."""
    serving.say("🙂é")
    texts = [c["choices"][0]["delta"].get("content") for c in wire.chat(stream=True).chunks]
    assert "".join(t for t in texts if t) == "🙂é"
    assert not any("\ufffd" in t for t in texts if t)


def test_a_stop_string_never_shows(wire: Wire, serving: FakeServing) -> None:
    """Not even its beginning; the text before a beginning that led nowhere does."""
    serving.say("one ST two STOP three")
    chunks = wire.chat(stream=True, stop=["STOP"]).chunks
    texts = [c["choices"][0]["delta"].get("content", "") for c in chunks]
    assert "".join(texts) == "one ST two "
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_reasoning_has_a_field_of_its_own(wire: Wire, serving: FakeServing) -> None:
    """S39: what the model thinks comes as reasoning_content, markers left out."""
    serving.say("<think>hm</think>yes", parse_special=False)
    deltas = [c["choices"][0]["delta"] for c in wire.chat(stream=True).chunks]
    assert "".join(d.get("reasoning_content", "") for d in deltas) == "hm"
    assert "".join(d.get("content", "") for d in deltas) == "yes"
    message = wire.chat().json["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "yes", "reasoning_content": "hm"}


def test_pings_while_nothing_comes(
    wire: Wire, serving: FakeServing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comments keep the connection alive through a long prefill; the role chunk is not held back."""
    monkeypatch.setattr("inference.api.generation_views.PING_INTERVAL_S", 0.05)
    gate = Gate()
    serving.before_step = gate
    serving.say("late")
    with wire.send("POST", "/v1/chat/completions", {"messages": [USER], "stream": True}) as sent:
        received = read_until(sent, b": ping\n\n", count=3)
        assert received.index(b'"role":"assistant"') < received.index(b": ping\n\n")
        gate.open()
        answer = read_answer(sent, received)
    assert "late" in "".join(c["choices"][0]["delta"].get("content", "") for c in answer.chunks)


def test_pings_while_tokens_come_that_are_held_back(
    wire: Wire, serving: FakeServing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may be the beginning of a stop string is no news to the client."""
    monkeypatch.setattr("inference.api.generation_views.PING_INTERVAL_S", 0.05)
    serving.before_step = lambda _step: time.sleep(0.02)
    serving.say("one two three four five six seven eight nine ten")
    body = {"messages": [USER], "stream": True, "stop": "one two three four five six seven eight!"}
    with wire.send("POST", "/v1/chat/completions", body) as sent:
        received = read_until(sent, b"one two three")
        assert b": ping" in received.partition(b"one two")[0]


def test_no_headers_before_there_is_news(wire: Wire, serving: FakeServing) -> None:
    """A refusal that comes late is still a status: nothing is sent while the request may be refused."""
    gate = Gate()
    serving.before_step = gate
    with wire.send("POST", "/v1/chat/completions", {"messages": [USER], "stream": True}) as sent:
        gate.wait_for_step()
        sent.settimeout(0.2)
        with pytest.raises(TimeoutError):
            sent.recv(1)
        gate.open()
        sent.settimeout(10)
        assert read_answer(sent).status == 200


def test_a_failure_in_the_stream_is_an_event(wire: Wire, serving: FakeServing) -> None:
    """After the first chunk: an error event with the four fields, then [DONE]."""

    def fail_later(step: int) -> None:
        if step == 3:
            raise RuntimeError("secret of the backend")

    serving.before_step = fail_later
    serving.say("abcdefgh")
    answer = wire.chat(stream=True)
    assert answer.status == 200
    *_, failure, done = answer.events
    assert done == "[DONE]"
    assert failure.startswith('{"error":{"message":')
    assert '"type":"server_error","param":null,"code":"generation_failed"' in failure
    assert "secret" not in answer.body.decode()


@pytest.mark.parametrize("stream", [True, False])
def test_a_failure_before_the_first_byte_is_a_status(
    wire: Wire, serving: FakeServing, stream: bool
) -> None:
    def fail(_step: int) -> None:
        raise RuntimeError("secret of the backend")

    serving.before_step = fail
    answer = wire.chat(stream=stream)
    assert answer.status == 500
    assert answer.error["code"] == "generation_failed"
    assert b"secret" not in answer.body


def test_an_unload_ends_streams_with_its_message(wire: Wire, serving: FakeServing) -> None:
    """D4: what still streams when a drain's time is up hears why."""
    gate = Gate()
    serving.before_step = gate
    serving.say("abcdefgh")
    (replica,) = serving.runtime.replicas()
    with wire.send("POST", "/v1/chat/completions", {"messages": [USER], "stream": True}) as sent:
        gate.allow(3)
        received = read_until(sent, b'"content":"a')
        gate.open()
        serving.before_step = lambda _step: time.sleep(0.02)
        replica.worker.close("The model was unloaded.")
        answer = read_answer(sent, received)
    *_, failure, done = answer.events
    assert done == "[DONE]"
    assert "The model was unloaded." in failure
