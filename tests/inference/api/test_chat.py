"""POST /v1/chat/completions, answered in one piece."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from inference.engine.params import SequenceRequest
from inference.text.chat_template import ChatTemplate
from tests.fakes.runtime import CONTEXT_LEN, FakeServing
from tests.inference.api.wire import Wire

CHAT = "/v1/chat/completions"


@pytest.fixture
def submitted(serving: FakeServing, monkeypatch: pytest.MonkeyPatch) -> list[SequenceRequest]:
    """Every sequence that reached the engine."""
    seen: list[SequenceRequest] = []
    (replica,) = serving.runtime.replicas()
    submit = replica.worker.submit
    monkeypatch.setattr(replica.worker, "submit", lambda r: seen.append(r) or submit(r))
    return seen


def prompt_text(serving: FakeServing, sequence: SequenceRequest) -> str:
    return serving.text.tokenizer.decode(sequence.prompt_ids, special=True)


@pytest.mark.parametrize("path", [CHAT, "/chat/completions"])
def test_it_works(wire: Wire, serving: FakeServing, path: str) -> None:
    """S5: the text the model says comes back, with the object, ids and counts OpenAI's clients read."""
    ids = serving.say("the answer")
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}
    answer = wire.post(path, body)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    reply = answer.json
    assert reply["object"] == "chat.completion"
    assert re.fullmatch(r"chatcmpl-[0-9a-f]{32}", reply["id"])
    assert reply["model"] == "tiny"
    assert reply["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "the answer"},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    usage = reply["usage"]
    assert usage["completion_tokens"] == len(ids)
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert serving.num_busy() == 0


def test_ids_never_repeat(wire: Wire, serving: FakeServing) -> None:
    """D12."""
    serving.say("x")
    assert len({wire.chat().json["id"] for _ in range(20)}) == 20


def test_the_prompt_is_the_template_s(
    wire: Wire, serving: FakeServing, submitted: list[SequenceRequest]
) -> None:
    """S35: the whole conversation, in the model's own form, with the assistant's turn opened."""
    serving.say("yes")
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Bye"},
    ]
    wire.post(CHAT, {"messages": messages})
    turns = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
    assert prompt_text(serving, submitted[0]) == turns + "<|im_start|>assistant\n"


QUIRKS: list[tuple[list[dict[str, Any]], str]] = [
    ([{"role": "developer", "content": "X"}], "<|im_start|>system\nX<|im_end|>"),
    ([{"role": "user", "content": [{"type": "text", "text": "X"}]}], "user\nX<|im_end|>"),
    (
        [{"role": "user", "content": [{"type": "text", "text": t} for t in ("X", "Y")]}],
        "user\nX\nY<|im_end|>",
    ),
    ([{"role": "user", "content": ""}], "user\n<|im_end|>"),
    ([{"role": "user", "content": "X", "name": None}], "user\nX<|im_end|>"),
    ([{"role": "assistant", "content": None}], "assistant\n<|im_end|>"),
    ([{"role": "assistant"}], "assistant\n<|im_end|>"),
    (
        [{"role": "assistant", "content": [{"type": "refusal", "refusal": "No"}]}],
        "assistant\nNo<|im_end|>",
    ),
    (
        [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "content": "X", "tool_call_id": None},
        ],
        "tool\nX<|im_end|>",
    ),
    ([{"role": "user", "content": "X", "annotations": [], "audio": None}], "user\nX<|im_end|>"),
]  # fmt: skip


@pytest.mark.parametrize(("messages", "wanted"), QUIRKS)
def test_messages_as_clients_send_them(
    wire: Wire,
    serving: FakeServing,
    submitted: list[SequenceRequest],
    messages: list[dict[str, Any]],
    wanted: str,
) -> None:
    """The developer role, content in parts or null, tool calls in the history, null ids, unknown keys."""
    serving.say("yes")
    answer = wire.post(CHAT, {"messages": [*messages, {"role": "user", "content": "?"}]})
    assert answer.status == 200, answer.body
    assert wanted in prompt_text(serving, submitted[0])


def test_answers_take_the_rest_of_the_context(
    wire: Wire, serving: FakeServing, submitted: list[SequenceRequest]
) -> None:
    serving.say("x" * 1000)
    reply = wire.chat().json
    assert submitted[0].max_tokens == CONTEXT_LEN - len(submitted[0].prompt_ids)
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["total_tokens"] == CONTEXT_LEN


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_answers_end_at_the_limit(wire: Wire, serving: FakeServing, name: str) -> None:
    serving.say("abcdef")
    reply = wire.chat(**{name: 3}).json
    assert reply["choices"][0]["message"]["content"] == "abc"
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["completion_tokens"] == 3


def test_what_can_never_fit_is_refused_with_numbers(wire: Wire, serving: FakeServing) -> None:
    """A prompt that fills the context, and a prompt whose answer would overflow it."""
    for answer in (wire.chat("x " * CONTEXT_LEN), wire.chat("Hi", max_tokens=CONTEXT_LEN)):
        assert answer.status == 400
        assert answer.error["code"] == "context_length_exceeded"
        assert f"maximum context length is {CONTEXT_LEN} tokens" in answer.error["message"]
    assert serving.num_accepted() == 0


def test_stop_strings_end_the_answer(wire: Wire, serving: FakeServing) -> None:
    """D3: the reason is stop, and tokens are counted up to the text that is returned."""
    serving.say("ab STOP cd and more")
    for stop in ("STOP", ["nothing", "STOP"]):
        reply = wire.chat(stop=stop).json
        assert reply["choices"][0]["message"]["content"] == "ab "
        assert reply["choices"][0]["finish_reason"] == "stop"
        assert reply["usage"]["completion_tokens"] == len(
            serving.text.tokenizer.encode("ab ", add_special=False, parse_special=False)
        )


def test_a_stopped_sequence_is_aborted_at_once(wire: Wire, serving: FakeServing) -> None:
    """D3, K5: it does not run on to its limit; what it had made in excess is counted."""
    serving.say("STOP" + "x" * 400)
    reply = wire.chat(stop="STOP").json
    assert reply["choices"][0]["message"]["content"] == ""
    assert reply["usage"]["completion_tokens"] == 0
    (replica,) = serving.runtime.replicas()
    assert replica.worker.stats().counts.num_output_tokens < 100


def test_parameters_reach_the_engine(
    wire: Wire, submitted: list[SequenceRequest], serving: FakeServing
) -> None:
    """None is accepted and then dropped."""
    serving.say("yes")
    wire.chat(
        temperature=0.5, top_p=0.25, top_k=7, min_p=0.125, typical_p=0.75, repeat_penalty=1.5,
        repeat_last_n=9, presence_penalty=-1, frequency_penalty=2, logit_bias={"3": -100, "4": 1.5},
        seed=42, logprobs=True, top_logprobs=3, max_tokens=5, session_id="s",
    )  # fmt: skip
    (sequence,) = submitted
    params = sequence.sampling
    assert (params.temperature, params.top_p, params.top_k, params.min_p) == (0.5, 0.25, 7, 0.125)
    assert (params.typical_p, params.repeat_penalty, params.repeat_last_n) == (0.75, 1.5, 9)
    assert (params.presence_penalty, params.frequency_penalty) == (-1.0, 2.0)
    assert params.logit_bias == {3: -100.0, 4: 1.5}
    assert (params.seed, params.num_logprobs) == (42, 3)
    assert (sequence.max_tokens, sequence.session_id) == (5, "s")
    assert sequence.end_ids == serving.text.tokenizer.end_ids


def test_other_spellings_of_off(
    wire: Wire, submitted: list[SequenceRequest], serving: FakeServing
) -> None:
    serving.say("yes")
    wire.chat(top_k=-1, repeat_last_n=-1, seed=-1)
    params = submitted[0].sampling
    assert params.top_k == 0
    assert params.repeat_last_n == CONTEXT_LEN
    assert params.seed == 2**64 - 1


def test_the_session_may_come_as_a_header(
    wire: Wire, submitted: list[SequenceRequest], serving: FakeServing
) -> None:
    """S40: the body's wins."""
    serving.say("yes")
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    wire.post(CHAT, body, X_Session_Id="from-header")
    wire.post(CHAT, body | {"session_id": "from-body"}, X_Session_Id="from-header")
    assert [s.session_id for s in submitted] == ["from-header", "from-body"]
    assert wire.post(CHAT, body, X_Session_Id="x" * 129).error["param"] == "session_id"


def test_log_probabilities(wire: Wire, serving: FakeServing) -> None:
    """Each token of the text with its bytes; the best ones beside it, the chosen among them."""
    serving.say("é!")
    choice = wire.chat(logprobs=True, top_logprobs=2).json["choices"][0]
    content = choice["logprobs"]["content"]
    assert [entry["bytes"] for entry in content] == [[0xC3], [0xA9], [0x21]]
    assert bytes(b for entry in content for b in entry["bytes"]).decode() == "é!"
    for entry in content:
        assert entry["logprob"] <= 0
        assert len(entry["top_logprobs"]) == 2
        assert entry["top_logprobs"][0]["bytes"] == entry["bytes"]
        assert entry["top_logprobs"][0]["logprob"] == entry["logprob"]
    assert (
        wire.chat(logprobs=True).json["choices"][0]["logprobs"]["content"][0]["top_logprobs"] == []
    )
    assert wire.chat().json["choices"][0]["logprobs"] is None


def test_template_refusals_are_the_client_s(wire: Wire, serving: FakeServing) -> None:
    (replica,) = serving.runtime.replicas()
    refusing = ChatTemplate("{{ raise_exception('roles must alternate') }}")
    replica.text = replace(serving.text, chat_template=refusing)
    answer = wire.chat()
    assert answer.status == 400
    assert answer.error["code"] == "template_error"
    assert answer.error["param"] == "messages"
    assert "roles must alternate" in answer.error["message"]


def test_switches_reach_the_template(
    wire: Wire, serving: FakeServing, submitted: list[SequenceRequest]
) -> None:
    (replica,) = serving.runtime.replicas()
    source = "{{ 'on' if enable_thinking else 'off' }}{{ '<think>' if enable_thinking else '' }}"
    replica.text = replace(serving.text, chat_template=ChatTemplate(source))
    serving.say("hm")
    on = wire.chat(chat_template_kwargs={"enable_thinking": True})
    off = wire.chat(chat_template_kwargs={"enable_thinking": False})
    assert prompt_text(serving, submitted[0]).startswith("on")
    assert prompt_text(serving, submitted[1]) == "off"
    # The prompt ended inside <think>: the model began by thinking.
    assert on.json["choices"][0]["message"]["reasoning_content"] == "hm"
    assert off.json["choices"][0]["message"] == {"role": "assistant", "content": "hm"}


def test_prompts_are_not_logged(
    wire: Wire, serving: FakeServing, caplog: pytest.LogCaptureFixture
) -> None:
    serving.say("confidential answer")
    wire.chat("confidential question")
    wire.chat("confidential question", n=2)
    logged = json.dumps([record.getMessage() for record in caplog.records])
    assert "prompt tokens" in logged
    assert "confidential" not in logged
