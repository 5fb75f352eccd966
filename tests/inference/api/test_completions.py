"""POST /v1/completions: prompts in every form, a choice for each, echo and log probabilities."""

from __future__ import annotations

import re

import pytest

from tests.fakes.executor import Gate
from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire, read_answer, wait_until


def ids_of(serving: FakeServing, text: str) -> list[int]:
    return serving.text.tokenizer.encode(text, add_special=False, parse_special=True)


@pytest.fixture
def prompts_seen(serving: FakeServing, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Token ids of every prompt that reached the engine."""
    seen: list[tuple[int, ...]] = []
    (replica,) = serving.runtime.replicas()
    submit = replica.worker.submit
    monkeypatch.setattr(replica.worker, "submit", lambda r: seen.append(r.prompt_ids) or submit(r))
    return seen


def test_it_works(wire: Wire, serving: FakeServing) -> None:
    ids = serving.say(" the answer")
    reply = wire.complete("Say", model="tiny").json
    assert reply["object"] == "text_completion"
    assert re.fullmatch(r"cmpl-[0-9a-f]{32}", reply["id"])
    assert reply["choices"] == [
        {"index": 0, "text": " the answer", "logprobs": None, "finish_reason": "stop"}
    ]
    assert reply["usage"]["completion_tokens"] == len(ids)


def test_sixteen_tokens_unless_told_otherwise(wire: Wire, serving: FakeServing) -> None:
    """OpenAI's default for this route; fewer where the context ends."""
    serving.say("x" * 400)
    reply = wire.complete("Say").json
    assert reply["choices"][0] | {} == {
        "index": 0, "text": "x" * 16, "logprobs": None, "finish_reason": "length",
    }  # fmt: skip
    assert reply["usage"]["completion_tokens"] == 16
    assert wire.complete([65] * 510).json["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize("stream", [True, False])
def test_every_form_of_prompt(
    wire: Wire, serving: FakeServing, prompts_seen: list[tuple[int, ...]], stream: bool
) -> None:
    serving.say("yes")
    hi = tuple(ids_of(serving, "Hi"))
    for prompt, wanted in (
        ("Hi", [hi]),
        (["Hi"], [hi]),
        (["Hi", "Hi"], [hi, hi]),
        (list(hi), [hi]),
        ([list(hi), [7, 8, 9]], [hi, (7, 8, 9)]),
    ):
        prompts_seen.clear()
        answer = wire.complete(prompt, stream=stream)
        assert answer.status == 200
        assert sorted(prompts_seen) == sorted(wanted)
        if stream:
            pieces = [c["choices"][0] for c in answer.chunks]
            assert pieces[0]["index"] == 0
        else:
            pieces = answer.json["choices"]
            assert [p["index"] for p in pieces] == list(range(len(wanted)))
        for index in range(len(wanted)):
            own = [p for p in pieces if p["index"] == index]
            assert "".join(p["text"] for p in own) == "yes"
            assert own[-1]["finish_reason"] == "stop"


def test_control_tokens_in_a_prompt_count(
    wire: Wire, serving: FakeServing, prompts_seen: list[tuple[int, ...]]
) -> None:
    serving.say("yes")
    wire.complete("<|im_start|>user")
    assert len(ids_of(serving, "<|im_start|>")) == 1
    assert prompts_seen[0][0] == ids_of(serving, "<|im_start|>")[0]


def test_many_prompts_run_together_but_not_all_at_once(wire: Wire, serving: FakeServing) -> None:
    """A long list must not fill the queue: eight run, the others follow as these end."""
    gate = Gate()
    serving.before_step = gate
    serving.say("yes")
    body = {"prompt": [[65 + i] for i in range(100)], "max_tokens": 3}
    with wire.send("POST", "/v1/completions", body) as sent:
        wait_until(lambda: serving.num_accepted() == 8)
        gate.open()
        reply = read_answer(sent).json
    assert [choice["index"] for choice in reply["choices"]] == list(range(100))
    assert {choice["text"] for choice in reply["choices"]} == {"yes"}
    assert reply["usage"]["prompt_tokens"] == 100
    assert reply["usage"]["completion_tokens"] == 300


def test_usage_of_a_stream_counts_all_choices(wire: Wire, serving: FakeServing) -> None:
    ids = serving.say("yes")
    options = {"include_usage": True}
    *others, last = wire.complete([[1], [2, 3]], stream=True, stream_options=options).chunks
    assert last["choices"] == []
    assert last["usage"]["prompt_tokens"] == 3
    assert last["usage"]["completion_tokens"] == 2 * len(ids)
    assert all(chunk["usage"] is None for chunk in others)


def test_echo_puts_the_prompt_first(wire: Wire, serving: FakeServing) -> None:
    serving.say(" yes")
    assert wire.complete("Say", echo=True).json["choices"][0]["text"] == "Say yes"
    tokens = ids_of(serving, "Say")
    assert wire.complete(tokens, echo=True).json["choices"][0]["text"] == "Say yes"
    pieces = [c["choices"][0] for c in wire.complete("Say", echo=True, stream=True).chunks]
    assert pieces[0]["text"] == "Say"
    assert "".join(p["text"] for p in pieces) == "Say yes"


def test_log_probabilities(wire: Wire, serving: FakeServing) -> None:
    """The older form: parallel lists; offsets are positions in the text; pieces of characters in hex."""
    serving.say("aé!")
    choice = wire.complete("Say", logprobs=2).json["choices"][0]
    found = choice["logprobs"]
    assert found["tokens"] == ["a", "bytes:\\xc3", "bytes:\\xa9", "!"]
    assert found["text_offset"] == [0, 1, 1, 2]
    assert all(-0.01 < value <= 0 for value in found["token_logprobs"])
    for token, best in zip(found["tokens"], found["top_logprobs"], strict=True):
        assert len(best) == 2
        assert max(best, key=best.get) == token


def test_log_probabilities_of_a_stream_add_up(wire: Wire, serving: FakeServing) -> None:
    serving.say("one STOP two")
    whole = wire.complete("Say", logprobs=0, stop="STOP", seed=1).json["choices"][0]
    pieces = wire.complete("Say", logprobs=0, stop="STOP", seed=1, stream=True).chunks
    joined = [c["choices"][0]["logprobs"] for c in pieces if c["choices"][0]["logprobs"]]
    for name in ("tokens", "token_logprobs", "text_offset"):
        assert [value for each in joined for value in each[name]] == whole["logprobs"][name]
    assert "".join(whole["logprobs"]["tokens"]) == whole["text"] == "one "
    assert whole["logprobs"]["top_logprobs"] == [{}] * len(whole["logprobs"]["tokens"])
