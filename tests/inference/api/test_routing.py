"""Which replica answers which name, and what is said when none does."""

from __future__ import annotations

import time

import pytest

from tests.fakes.executor import Gate
from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire, read_answer, wait_until

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize("model", ["tiny", "gpt-4o", "", None])
def test_one_name_answers_to_any(wire: Wire, serving: FakeServing, model: str | None) -> None:
    """S20, D5: the reply says which model it was."""
    serving.say("yes")
    assert wire.chat(model=model).json["model"] == "tiny"


def test_several_names_are_told_apart(wire: Wire, serving: FakeServing) -> None:
    """S20: exact names; unknown ones are 404 and listed."""
    serving.add("other")
    serving.say("yes")
    assert wire.chat(model="other").json["model"] == "other"
    answer = wire.chat(model="gpt-4o")
    assert answer.status == 404
    assert answer.error["code"] == "model_not_found"
    assert answer.error["param"] == "model"
    assert "other, tiny" in answer.error["message"]


@pytest.mark.parametrize("fields", [{}, {"model": None}, {"model": ""}])
def test_no_name_means_the_longest_loaded(
    wire: Wire, serving: FakeServing, fields: dict[str, object]
) -> None:
    """S19."""
    serving.add("a-later-one")
    serving.say("yes")
    assert wire.post(CHAT, BODY | fields).json["model"] == "tiny"


def test_a_stream_names_the_model_that_answers(wire: Wire, serving: FakeServing) -> None:
    """Not the one asked for, which may have been unloaded."""
    chunks = wire.post(CHAT, BODY | {"model": "gone", "stream": True}).chunks
    assert {chunk["model"] for chunk in chunks} == {"tiny"}


def test_strict_names(wire: Wire, serving: FakeServing) -> None:
    """D5: PANTHEON_STRICT_MODEL."""
    serving.runtime._strict_model = True
    assert wire.chat(model="gpt-4o").status == 404


def test_no_model_is_503(wire: Wire, serving: FakeServing) -> None:
    """S20, and no client repeats it by itself."""
    serving.runtime.remove("r0").worker.close("over")
    answer = wire.chat(model="tiny")
    assert answer.status == 503
    assert answer.error["code"] == "no_model_loaded"
    assert answer.headers["x-should-retry"] == "false"


def test_a_draining_model_is_503(wire: Wire, serving: FakeServing) -> None:
    """D5: never another model."""
    serving.add("other")
    serving.runtime.drain("r0")
    answer = wire.chat(model="tiny")
    assert answer.status == 503
    assert answer.error["code"] == "model_unloading"
    assert int(answer.headers["retry-after"]) > 0


def test_replicas_share_the_load(wire: Wire, serving: FakeServing) -> None:
    """S18: fewest leases first."""
    gate = Gate()
    serving.before_step = gate
    serving.say("yes")
    second = serving.add("tiny")
    sent = [wire.send("POST", CHAT, BODY | {"model": "tiny"}) for _ in range(4)]
    wait_until(lambda: serving.num_accepted() == 4)
    assert second.worker.stats().counts.num_accepted == 2
    gate.open()
    assert all(read_answer(each).status == 200 for each in sent)
    wait_until(lambda: serving.num_busy() == 0)
    for each in sent:
        each.close()


def test_a_full_queue_is_429(
    wire: Wire, serving: FakeServing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S27: at once, with a time to come back, and before a prompt is made of it."""
    gate = Gate()
    serving.before_step = gate
    small = serving.add("small", num_slots=1, queue_depth=1)
    held = [wire.send("POST", CHAT, BODY | {"model": "small"})]
    gate.wait_for_step()
    held.append(wire.send("POST", CHAT, BODY | {"model": "small"}))
    wait_until(lambda: small.worker.stats().num_queued == 1)
    monkeypatch.setattr("inference.api.generation_views.chat_prompt", None)
    for stream in (True, False):
        answer = wire.chat(model="small", stream=stream)
        assert answer.status == 429
        assert answer.error["code"] == "server_busy"
        assert answer.headers["retry-after"] == "5"
    gate.open()
    assert all(read_answer(each).status == 200 for each in held)
    for each in held:
        each.close()


@pytest.mark.parametrize("stream", [True, False])
def test_a_long_wait_is_429(wire: Wire, serving: FakeServing, stream: bool) -> None:
    """S27: headers were not sent while it waited, so a stream is refused by status too."""
    serving.add("small", num_slots=1, queue_wait_s=0.15)
    serving.say("x" * 400)
    serving.before_step = lambda _step: time.sleep(0.01)
    first = wire.send("POST", CHAT, BODY | {"model": "small", "stream": True})
    first.recv(1)
    answer = wire.chat(model="small", stream=stream)
    assert answer.status == 429
    assert answer.headers["retry-after"] == "2"
    first.close()
    wait_until(lambda: serving.num_busy() == 0)


def test_a_long_wait_after_a_ping_is_an_event(
    wire: Wire, serving: FakeServing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.api.generation_views.PING_INTERVAL_S", 0.05)
    serving.add("small", num_slots=1, queue_wait_s=0.2)
    serving.say("x" * 400)
    serving.before_step = lambda _step: time.sleep(0.01)
    first = wire.send("POST", CHAT, BODY | {"model": "small", "stream": True})
    first.recv(1)
    answer = wire.chat(model="small", stream=True)
    assert answer.status == 200
    *_, failure, done = answer.events
    assert done == "[DONE]"
    assert '"code":"server_busy"' in failure
    first.close()
    wait_until(lambda: serving.num_busy() == 0)
