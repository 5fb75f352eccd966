"""What became of a request, by its id: for the key that asked and for operators, without its words."""

from __future__ import annotations

import contextlib
import logging
import time

import pytest

from inference.api.request_record import RECORDS, RecordRing, RequestRecord
from registry import services
from tests.fakes.executor import Gate
from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire, read_answer, read_until, wait_until


def record_of(wire: Wire, request_id: str, **headers: str) -> dict:
    answer = wire.get(f"/v1/requests/{request_id}", **headers)
    assert answer.status == 200
    return answer.json


@pytest.mark.parametrize("stream", [False, True])
def test_it_works(wire: Wire, serving: FakeServing, stream: bool) -> None:
    serving.say("well")
    answer = wire.chat(stream=stream)
    request_id = answer.headers["x-request-id"]
    wait_until(lambda: record_of(wire, request_id)["state"] == "ended")
    record = record_of(wire, request_id)
    assert record["id"] == request_id
    assert record["completion_id"].startswith("chatcmpl-")
    assert (record["model"], record["route"]) == ("tiny", "/v1/chat/completions")
    assert record["stream"] is stream
    assert record["finish_reasons"] == ["stop"]
    assert record["error"] is None
    assert record["prompt_tokens"] > 0
    assert record["completion_tokens"] == len(serving.script.ids) + 1  # and the end
    assert 0 < record["ttft_s"] <= record["duration_s"] < 5
    assert abs(record["started"] - time.time()) < 5
    if not stream:
        assert record["completion_id"] == answer.json["id"]
        assert record["prompt_tokens"] == answer.json["usage"]["prompt_tokens"]


def test_it_tells_how_it_was_admitted_and_how_fast_it_went(
    wire: Wire, serving: FakeServing
) -> None:
    serving.before_step = lambda _: time.sleep(0.002)
    serving.say("well yes of course")
    prompt = "the " * 100
    wire.complete(prompt, max_tokens=1)
    answer = wire.complete(prompt, max_tokens=30)
    record = record_of(wire, answer.headers["x-request-id"])
    (choice,) = record["choices"]
    usage = answer.json["usage"]
    assert record["replica_id"] == "r0"
    assert record["cached_tokens"] == usage["prompt_tokens_details"]["cached_tokens"] > 0
    assert record["chunks"] == choice["chunks"] == 1, "the rest was known"
    assert 0 <= record["queue_wait_s"] < 1
    assert 0.002 < choice["prefill_s"] < record["ttft_s"]
    num = record["completion_tokens"]
    assert record["tokens_per_s"] == pytest.approx((num - 1) / choice["decode_s"])
    assert record["tokens_per_s"] < 500
    assert choice["admission"]["pages_at_most"] == -(-(usage["prompt_tokens"] + 30) // 32)
    assert choice["admission"]["pages_free"] == 256
    assert choice["admission"]["ahead_in_queue"] == 0
    assert choice["admission"]["pressure"] == "low"
    assert choice["admission"]["host_bytes"] > 100
    assert (choice["preempted"], choice["parked"], record["surplus_tokens"]) == (0, 0, 0)


def test_who_waited_in_the_queue_has_the_time(wire: Wire, serving: FakeServing) -> None:
    gate = serving.before_step = Gate()
    serving.say("well")
    body = {"prompt": "a", "max_tokens": 2}
    with contextlib.ExitStack() as sent:
        for i in range(9):
            sent.enter_context(wire.send("POST", "/v1/completions", body, X_Request_Id=f"w{i}"))
            wait_until(lambda i=i: serving.num_accepted() == i + 1)
        waiting = record_of(wire, "w8")
        assert (waiting["queue_wait_s"], waiting["state"]) == (None, "running")
        assert waiting["choices"][0]["admission"]["ahead_in_queue"] == 0
        time.sleep(0.05)
        gate.open()
        wait_until(lambda: record_of(wire, "w8")["state"] == "ended")
    assert record_of(wire, "w8")["queue_wait_s"] >= 0.05
    assert record_of(wire, "w0")["queue_wait_s"] < 0.05


def test_tokens_after_a_stop_string_are_surplus(wire: Wire, serving: FakeServing) -> None:
    """D3: the answer's count is of its text; what the model said beyond is counted apart."""
    ids = serving.say("well STOP" + " the" * 300)
    gate = serving.before_step = Gate()
    body = {"prompt": "a", "max_tokens": 200, "stop": "STOP"}
    with wire.send("POST", "/v1/completions", body, X_Request_Id="stopped") as connection:
        gate.open()
        answer = read_answer(connection)
    wait_until(lambda: record_of(wire, "stopped")["state"] == "ended")
    record = record_of(wire, "stopped")
    (replica,) = serving.runtime.replicas()
    wait_until(lambda: serving.num_busy() == 0)
    counts = replica.worker.stats().counts
    num_stop = record["completion_tokens"] - answer.json["usage"]["completion_tokens"]
    assert num_stop > 0
    assert counts.num_surplus_tokens == record["surplus_tokens"]
    assert len(ids) > counts.num_output_tokens >= record["completion_tokens"]


def test_a_request_id_of_the_client_finds_it_too(wire: Wire, serving: FakeServing) -> None:
    serving.say("well")
    body = {"prompt": ["a", "b", "c"], "max_tokens": 2}
    wire.post("/v1/completions", body, X_Request_Id="mine-1")
    record = record_of(wire, "mine-1")
    assert record["finish_reasons"] == ["length"] * 3
    assert record["completion_tokens"] == 6


def test_a_running_request_is_seen_as_far_as_it_is(wire: Wire, serving: FakeServing) -> None:
    gate = serving.before_step = Gate()
    serving.say("a long answer")
    body = {"messages": [{"role": "user", "content": "Hi"}], "stream": True}
    with wire.send("POST", "/v1/chat/completions", body, X_Request_Id="running") as connection:
        gate.allow(3)
        read_until(connection, b'"content":"')
        record = record_of(wire, "running")
        assert record["state"] == "running"
        assert record["duration_s"] is None
        assert record["finish_reasons"] == [None]
        assert record["completion_tokens"] >= 1
        gate.open()
        read_until(connection, b"[DONE]")
    wait_until(lambda: record_of(wire, "running")["finish_reasons"] == ["stop"])


def test_a_client_that_left_is_an_abort(wire: Wire, serving: FakeServing) -> None:
    gate = serving.before_step = Gate()
    serving.say("a long answer")
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    connection = wire.send("POST", "/v1/chat/completions", body, X_Request_Id="left")
    gate.wait_for_step()
    connection.close()
    wait_until(lambda: record_of(wire, "left")["finish_reasons"] == ["aborted"])
    assert record_of(wire, "left")["ttft_s"] is None
    gate.open()


def test_a_failure_tells_its_code(wire: Wire, serving: FakeServing) -> None:
    def fail(_step: int) -> None:
        raise ZeroDivisionError

    serving.before_step = fail
    answer = wire.chat()
    assert answer.status == 500
    record = record_of(wire, answer.headers["x-request-id"])
    assert (record["finish_reasons"], record["error"]) == (["error"], "generation_failed")


def test_an_unknown_id_is_404(wire: Wire) -> None:
    answer = wire.get("/v1/requests/req_nothing")
    assert answer.status == 404
    assert answer.error["code"] == "request_not_found"


@pytest.mark.django_db(transaction=True)
def test_a_record_is_for_its_own_key_and_for_operators(
    serving: FakeServing, server: object
) -> None:
    wire = Wire(server)
    serving.say("well")
    scopes = {"ada": ["inference"], "bob": ["inference"], "root": ["admin"]}
    tokens = {
        name: services.api_key_create(name=name, scopes=wanted, actor="test")[1]
        for name, wanted in scopes.items()
    }
    for name in ("ada", "bob"):
        # The same id: neither hides the other's.
        assert (
            wire.post(
                "/v1/completions",
                {"prompt": "Hi", "max_tokens": 1 if name == "ada" else 2},
                X_Api_Key=tokens[name],
                X_Request_Id="same",
            ).status
            == 200
        )
    wire.post("/v1/completions", {"prompt": "Hi"}, X_Api_Key=tokens["ada"], X_Request_Id="hers")
    assert record_of(wire, "same", X_Api_Key=tokens["ada"])["completion_tokens"] == 1
    assert record_of(wire, "same", X_Api_Key=tokens["bob"])["completion_tokens"] == 2
    assert wire.get("/v1/requests/hers", X_Api_Key=tokens["bob"]).status == 404
    assert record_of(wire, "hers", X_Api_Key=tokens["root"])["id"] == "hers"


def test_the_ring_keeps_the_newest() -> None:
    ring = RecordRing(3)
    made = [
        RequestRecord(str(i % 5), f"c{i}", "/", "t", "tiny", "r0", False, 0.0) for i in range(7)
    ]
    for each in made:
        ring.add(each)
    assert ring.find("3", "t") is None
    assert ring.find("4", "t") is made[4]
    assert ring.find("0", "t") is made[5]
    assert ring.find("1", None) is made[6]
    assert ring.find("1", "other") is None


def test_a_request_is_logged_in_one_line_without_its_words(
    wire: Wire, serving: FakeServing, caplog: pytest.LogCaptureFixture
) -> None:
    serving.say("confidential answer")
    with caplog.at_level(logging.INFO, logger="inference"):
        wire.chat("confidential question", session_id="confidential session")
        lines = [r.getMessage() for r in caplog.records if r.name.startswith("inference.api")]
    (line,) = lines
    assert "confidential" not in line
    assert "tiny" in line
    assert "stop" in line
    assert not any("confidential" in str(vars(r)) for r in RECORDS._records.values())
