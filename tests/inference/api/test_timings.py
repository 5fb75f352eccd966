"""How fast each answer was made, beside its usage, under llama-server's names."""

from __future__ import annotations

import json
import time

import openai
import pytest

from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire

NAMES = {
    "cache_n", "prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second",
    "predicted_n", "predicted_ms", "predicted_per_token_ms", "predicted_per_second",
}  # fmt: skip


@pytest.mark.parametrize("ask", ["chat", "complete"])
def test_a_whole_answer_has_them(wire: Wire, serving: FakeServing, ask: str) -> None:
    serving.before_step = lambda _: time.sleep(0.002)
    serving.say("well yes of course")
    reply = getattr(wire, ask)(max_tokens=30).json
    timings, usage = reply["timings"], reply["usage"]
    assert timings.keys() == NAMES
    assert timings["prompt_n"] + timings["cache_n"] == usage["prompt_tokens"]
    num = timings["predicted_n"]
    assert num == usage["completion_tokens"] + 1, "and the one that ended it"
    assert timings["predicted_ms"] >= 2 * (num - 1)
    assert timings["prompt_ms"] >= 2
    per_second = 1e3 * (num - 1) / timings["predicted_ms"]
    assert timings["predicted_per_second"] == pytest.approx(per_second, rel=1e-3)
    assert timings["predicted_per_token_ms"] == pytest.approx(1e3 / per_second, rel=1e-2)
    assert timings["prompt_per_second"] > 0
    assert timings["prompt_per_token_ms"] > 0


@pytest.mark.parametrize("include_usage", [False, True])
@pytest.mark.parametrize("ask", ["chat", "complete"])
def test_a_stream_has_them_in_its_last_chunk(
    wire: Wire, serving: FakeServing, ask: str, include_usage: bool
) -> None:
    serving.say("well yes")
    options = {"stream_options": {"include_usage": True}} if include_usage else {}
    *others, last = getattr(wire, ask)(stream=True, **options).chunks
    assert last["timings"].keys() == NAMES
    assert bool(last["choices"]) is not include_usage
    assert not any("timings" in chunk for chunk in others)


def test_one_token_has_no_rate(wire: Wire, serving: FakeServing) -> None:
    serving.say("well")
    timings = wire.complete(max_tokens=1).json["timings"]
    assert timings["predicted_n"] == 1
    assert timings["predicted_ms"] == timings["predicted_per_second"] == 0


def test_prompts_side_by_side_have_none(wire: Wire, serving: FakeServing) -> None:
    serving.say("well")
    body = {"prompt": ["a", "b"], "max_tokens": 2}
    assert "timings" not in wire.post("/v1/completions", body).json
    chunks = wire.post("/v1/completions", {**body, "stream": True}).chunks
    assert not any("timings" in chunk for chunk in chunks)


def test_the_openai_client_reads_on_and_finds_them(serving: FakeServing, wire: Wire) -> None:
    serving.say("well yes")
    with openai.OpenAI(base_url=f"{wire.server.url}/v1", api_key="any") as client:
        messages = [{"role": "user", "content": "Hi"}]
        reply = client.chat.completions.create(model="tiny", messages=messages)  # type: ignore[call-overload]
        assert reply.model_extra["timings"]["predicted_n"] == reply.usage.completion_tokens + 1
        with client.chat.completions.stream(model="tiny", messages=messages) as stream:  # type: ignore[arg-type]
            final = stream.get_final_completion()
    assert final.choices[0].message.content == "well yes"
    assert json.dumps(final.to_dict())
