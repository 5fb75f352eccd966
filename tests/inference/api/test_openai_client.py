"""The real client of OpenAI, over the wire: what it parses, raises and repeats."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest
from openai import OpenAI

from tests.fakes.executor import Gate
from tests.fakes.live_server import LiveServer
from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import wait_until

USER = [{"role": "user", "content": "Hi"}]


@pytest.fixture
def client(serving: FakeServing, no_keys: None, server: LiveServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=20) as made:
        yield made


def test_chat(client: OpenAI, serving: FakeServing) -> None:
    ids = serving.say("the answer")
    reply = client.chat.completions.create(model="tiny", messages=USER)
    assert reply.choices[0].message.content == "the answer"
    assert reply.choices[0].message.role == "assistant"
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage.completion_tokens == len(ids)
    assert reply.usage.prompt_tokens_details.cached_tokens == 0
    assert reply._request_id.startswith("req_")


def test_chat_stream(client: OpenAI, serving: FakeServing) -> None:
    serving.say("the answer")
    options = {"include_usage": True}
    stream = client.chat.completions.create(
        model="tiny", messages=USER, stream=True, stream_options=options
    )
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "the answer"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.total_tokens > 0


def test_the_stream_helper_puts_the_message_together(client: OpenAI, serving: FakeServing) -> None:
    """It concatenates strings and indexes choices: the role must come once, choice 0 first."""
    serving.say("<think>hm</think>the answer", parse_special=False)
    with client.chat.completions.stream(model="tiny", messages=USER) as stream:
        events = [event.type for event in stream]
        final = stream.get_final_completion()
    assert "content.delta" in events
    message = final.choices[0].message
    assert message.role == "assistant"
    assert message.content == "the answer"
    assert final.choices[0].finish_reason == "stop"


def test_reasoning_survives_as_an_extra_field(client: OpenAI, serving: FakeServing) -> None:
    serving.say("<think>hm</think>yes", parse_special=False)
    message = client.chat.completions.create(model="tiny", messages=USER).choices[0].message
    assert message.content == "yes"
    assert message.reasoning_content == "hm"


def test_log_probabilities(client: OpenAI, serving: FakeServing) -> None:
    serving.say("ab")
    reply = client.chat.completions.create(
        model="tiny", messages=USER, logprobs=True, top_logprobs=3
    )
    assert [entry.token for entry in reply.choices[0].logprobs.content] == ["a", "b"]
    assert len(reply.choices[0].logprobs.content[0].top_logprobs) == 3
    with client.chat.completions.stream(
        model="tiny", messages=USER, logprobs=True, top_logprobs=3
    ) as stream:
        final = stream.get_final_completion()
    assert [entry.token for entry in final.choices[0].logprobs.content] == ["a", "b"]


def test_completions(client: OpenAI, serving: FakeServing) -> None:
    serving.say("yes")
    reply = client.completions.create(model="tiny", prompt=["a", "b"], logprobs=1, echo=False)
    assert [choice.text for choice in reply.choices] == ["yes", "yes"]
    assert "".join(reply.choices[0].logprobs.tokens) == "yes"
    pieces = list(client.completions.create(model="tiny", prompt=[1, 2], stream=True))
    assert "".join(piece.choices[0].text for piece in pieces) == "yes"


def test_models(client: OpenAI, serving: FakeServing) -> None:
    serving.add("org/other")
    assert [model.id for model in client.models.list()] == ["org/other", "tiny"]
    assert client.models.retrieve("org/other").owned_by == "pantheon"


def test_base_url_without_v1(serving: FakeServing, no_keys: None, server: LiveServer) -> None:
    serving.say("yes")
    with OpenAI(base_url=server.url, api_key="none", max_retries=0) as bare:
        reply = bare.chat.completions.create(model="tiny", messages=USER)
    assert reply.choices[0].message.content == "yes"


def test_pings_are_not_seen(
    client: OpenAI, serving: FakeServing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.api.generation_views.PING_INTERVAL_S", 0.02)
    gate = Gate()
    serving.before_step = gate
    serving.say("late")
    stream = client.chat.completions.create(model="tiny", messages=USER, stream=True)
    gate.wait_for_step()
    gate.open()
    assert "".join(c.choices[0].delta.content or "" for c in stream) == "late"


def test_errors_become_the_right_exceptions(client: OpenAI, serving: FakeServing) -> None:
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model="tiny", messages=USER, temperature=3)
    assert bad.value.param == "temperature"
    assert bad.value.code == "invalid_value"
    assert bad.value.type == "invalid_request_error"
    assert bad.value.request_id.startswith("req_")
    serving.add("other")
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="nothing", messages=USER)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="tiny", input="Hi")


def test_a_failing_stream_raises(client: OpenAI, serving: FakeServing) -> None:
    def fail_later(step: int) -> None:
        if step == 3:
            raise RuntimeError("secret")

    serving.before_step = fail_later
    serving.say("abcdefgh")
    stream = client.chat.completions.create(model="tiny", messages=USER, stream=True)
    with pytest.raises(openai.APIError, match="failed while it was generating"):
        list(stream)


def test_closing_a_stream_frees_its_slot(client: OpenAI, serving: FakeServing) -> None:
    gate = Gate()
    serving.before_step = gate
    serving.say("x" * 400)
    gate.allow(3)
    stream = client.chat.completions.create(model="tiny", messages=USER, stream=True)
    next(iter(stream))
    stream.close()
    assert wait_until(lambda: serving.num_busy() == 0) <= 0.25
    gate.open()


def test_what_it_repeats(
    serving: FakeServing, no_keys: None, server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 without a model is not asked again, whatever the client's retries: it would not help."""
    serving.runtime.remove("r0").worker.close("over")
    asked = []
    lease = serving.runtime.lease
    monkeypatch.setattr(
        serving.runtime, "lease", lambda name, **_: asked.append(name) or lease(name)
    )
    with (
        OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=2) as eager,
        pytest.raises(openai.InternalServerError) as refused,
    ):
        eager.chat.completions.create(model="tiny", messages=USER)
    assert refused.value.status_code == 503
    assert asked == ["tiny"]
