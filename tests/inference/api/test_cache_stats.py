"""GET /cache/stats: what the prefix cache of each replica holds and has saved."""

from __future__ import annotations

import pytest

from registry import services
from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire


def test_hits_misses_and_pages_are_told_for_each_replica(wire: Wire, serving: FakeServing) -> None:
    """S82."""
    serving.say("yes")
    prompt = "the " * 40
    for _ in range(3):
        answer = wire.complete(prompt, max_tokens=2)
    wire.complete("x", max_tokens=2)
    (cache,) = wire.get("/cache/stats").json["replicas"]
    usage = answer.json["usage"]
    num_cached = usage["prompt_tokens_details"]["cached_tokens"]
    assert (cache["replica_id"], cache["model"], cache["page_len"]) == ("r0", "tiny", 32)
    assert (cache["hits"], cache["misses"], cache["evictions"]) == (2, 2, 0)
    assert cache["tokens_saved"] == 2 * num_cached > 0
    assert cache["tokens_computed"] == 3 * usage["prompt_tokens"] - 2 * num_cached + 1
    assert cache["pages_cached"] == (usage["prompt_tokens"] + 2) // 32
    assert cache["pages"] == 256
    assert cache["pages_used"] == 0
    assert cache["pages_free"] == 256 - cache["pages_cached"]


def test_pages_given_to_others_are_evictions(wire: Wire, serving: FakeServing) -> None:
    serving.runtime.remove("r0").close("Replaced.")
    serving.add("tiny", num_pages=16, context_len=512)
    serving.say("yes")
    for word in ("the", "in", "on", "re"):
        wire.complete(f"{word} " * 200, max_tokens=2)
    (cache,) = wire.get("/cache/stats").json["replicas"]
    assert cache["evictions"] > 0


@pytest.mark.django_db(transaction=True)
def test_it_takes_a_key_once_there_are_keys(serving: FakeServing, server: object) -> None:
    wire = Wire(server)
    _, token = services.api_key_create(name="ada", scopes=["inference"], actor="test")
    assert wire.get("/cache/stats").status == 401
    assert wire.get("/cache/stats", X_Api_Key=token).status == 200
