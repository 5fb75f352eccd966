"""The page for Prometheus: right numbers, names others look for, and labels nobody can invent."""

from __future__ import annotations

import dataclasses
from itertools import count

import pytest
from prometheus_client.parser import text_string_to_metric_families

from inference.api.replica_metrics import COUNTERS, GAUGES
from inference.engine.pressure import Pressure
from inference.engine.stats import WorkerCounts, WorkerStats
from inference.runtime_access import set_runtime
from tests.fakes.executor import Gate
from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire, wait_until

OURS = {"model": "tiny", "replica": "r0"}
VLLM = {"model_name": "tiny", "engine": "r0"}


def scrape(wire: Wire) -> dict[tuple, float]:
    """Samples by name and labels."""
    answer = wire.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


def value(samples: dict, name: str, **labels: str) -> float:
    return samples.get((name, frozenset(labels.items())), 0)


def test_a_request_is_counted_in_both_dialects(wire: Wire, serving: FakeServing) -> None:
    serving.say("well")
    before = scrape(wire)
    usage = wire.chat().json["usage"]
    wire.chat(stream=True)
    wait_until(lambda: serving.num_busy() == 0)
    after = scrape(wire)

    def grown(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    num_output = len(serving.script.ids) + 1
    assert grown("pantheon_sequences_completed_total", **OURS) == 2
    assert grown("pantheon_output_tokens_total", **OURS) == 2 * num_output
    assert grown("vllm:generation_tokens_total", **VLLM) == 2 * num_output
    assert grown("vllm:prompt_tokens_total", **VLLM) == 2 * usage["prompt_tokens"]
    assert grown("pantheon_requests_finished_total", reason="stop", **OURS) == 2
    for name in ("pantheon_time_to_first_token_seconds", "pantheon_request_seconds"):
        assert grown(f"{name}_count", **OURS) == 2
        assert grown(f"{name}_bucket", le="+Inf", **OURS) == 2
    assert grown("vllm:time_to_first_token_seconds_count", **VLLM) == 2
    assert grown("vllm:e2e_request_latency_seconds_sum", **VLLM) > 0
    assert grown("pantheon_inter_token_seconds_count", **OURS) == grown(
        "vllm:time_per_output_token_seconds_count", **VLLM
    )
    route = {"route": "v1/chat/completions", "status": "200"}
    assert grown("pantheon_http_requests_total", **route) == 2


def test_what_runs_and_waits_is_seen(wire: Wire, serving: FakeServing) -> None:
    gate = serving.before_step = Gate()
    serving.add("single", num_slots=1)
    body = {"model": "single", "messages": [{"role": "user", "content": "Hi"}]}
    held = [wire.send("POST", "/v1/chat/completions", body) for _ in range(3)]
    gate.wait_for_step()
    wait_until(lambda: serving.num_accepted() == 3)
    samples = scrape(wire)
    labels = {"model": "single", "replica": "r1"}
    assert value(samples, "pantheon_slots", **labels) == 1
    assert value(samples, "pantheon_slots_used", **labels) == 1
    assert value(samples, "pantheon_queue_length", **labels) == 2
    names = {"model_name": "single", "engine": "r1"}
    assert value(samples, "vllm:num_requests_running", **names) == 1
    assert value(samples, "vllm:num_requests_waiting", **names) == 2
    assert 0 < value(samples, "vllm:kv_cache_usage_perc", **names) < 1
    slots = {each["replica_id"]: each for each in wire.get("/slots").json["replicas"]}
    assert slots["r1"]["num_slots_used"] == 1
    assert slots["r1"]["num_queued"] == 2
    assert slots["r1"]["num_requests"] == 3
    assert slots["r0"]["num_slots_used"] == 0
    for connection in held:
        connection.close()
    gate.open()
    wait_until(lambda: serving.num_busy() == 0)


def test_labels_are_those_of_loaded_replicas(wire: Wire, serving: FakeServing) -> None:
    """Whatever clients call models, routes and ids; a replica that is gone takes its series along."""
    serving.say("x")
    for i in range(20):
        wire.chat(model=f"invented-{i}")
        wire.get(f"/invented/{i}")
        wire.get(f"/v1/requests/invented-{i}")
        wire.ask(f"INVENTED{i}", "/v1/models")
    gone = serving.add("brief")
    wire.chat(model="brief")
    wait_until(lambda: serving.num_busy() == 0)
    text = wire.get("/metrics").body.decode()
    assert "invented" not in text.lower()
    assert 'replica="r1"' in text
    serving.runtime.remove(gone.replica_id)
    text = wire.get("/metrics").body.decode()
    assert 'replica="r1"' not in text
    assert 'engine="r1"' not in text
    assert 'replica="r0"' in text
    gone.worker.close("done")


def test_refusals_before_any_route_are_counted(wire: Wire) -> None:
    before = scrape(wire)
    with wire.server.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nno colon\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
    labels = {"route": "refused", "status": "400"}
    name = "pantheon_http_requests_total"
    assert value(scrape(wire), name, **labels) == value(before, name, **labels) + 1


def test_a_client_that_left_is_counted(wire: Wire, serving: FakeServing) -> None:
    labels = {"route": "v1/chat/completions", "status": "499"}
    name = "pantheon_http_requests_total"
    before = value(scrape(wire), name, **labels)
    gate = serving.before_step = Gate()
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    connection = wire.send("POST", "/v1/chat/completions", body)
    gate.wait_for_step()
    connection.close()
    wait_until(lambda: value(scrape(wire), name, **labels) == before + 1)
    gate.open()


def test_there_is_a_page_while_nothing_is_loaded(wire: Wire) -> None:
    set_runtime(None)
    samples = scrape(wire)
    assert value(samples, "process_resident_memory_bytes") > 1 << 20
    assert not [name for name, _ in samples if name.startswith("vllm:")]


def test_openmetrics_is_spoken_to_those_who_ask(wire: Wire) -> None:
    answer = wire.get("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")


def test_every_number_of_a_worker_has_a_metric() -> None:
    """A new field gets a row in the table, and no row shows another's number."""
    numbers = (10.0**i for i in count())
    fields = dataclasses.fields(WorkerCounts)
    counts = WorkerCounts(**{each.name: next(numbers) for each in fields})
    plain = [
        f.name for f in dataclasses.fields(WorkerStats) if f.name not in ("pressure", "counts")
    ]
    stats = WorkerStats(
        **{name: next(numbers) for name in plain}, pressure=Pressure.HIGH, counts=counts
    )
    shown = sorted(row.value(stats) for row in (*GAUGES, *COUNTERS) if row.name)
    expected = [2.0, *(10.0**i for i in range(len(fields) + len(plain)))]
    assert shown == sorted(expected)


def test_names_are_unique() -> None:
    names = [name for row in (*GAUGES, *COUNTERS) for name in (row.name, row.also) if name]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_properties_tell_what_a_model_can_take(
    wire: Wire, serving: FakeServing, num_replicas: int
) -> None:
    for _ in range(num_replicas - 1):
        serving.add("tiny")
    props = wire.get("/props").json
    (model,) = props["models"]
    sampling = model.pop("default_sampling")
    assert (sampling["temperature"], sampling["top_p"], sampling["top_k"]) == (1.0, 1.0, 0)
    assert model == {
        "id": "tiny",
        "context_length": 512,
        "vocab_size": serving.text.tokenizer.vocab_size,
        "has_own_chat_template": True,
        "num_replicas": num_replicas,
        "total_slots": 8 * num_replicas,
    }
    assert props["total_slots"] == 8 * num_replicas
    assert props["default_generation_settings"] == {"n_ctx": 512, "params": sampling}
    assert props["limits"]["max_body_bytes"] == 8 << 20


def test_what_a_replica_holds_is_told_by_kind(wire: Wire, serving: FakeServing) -> None:
    (replica,) = serving.runtime.replicas()
    samples, memory = scrape(wire), replica.memory
    for kind, num_bytes in (
        ("weights", memory.weight_bytes),
        ("kv", memory.kv_bytes),
        ("buffers", memory.buffer_bytes),
    ):
        assert value(samples, "pantheon_replica_memory_bytes", kind=kind, **OURS) == num_bytes > 0
