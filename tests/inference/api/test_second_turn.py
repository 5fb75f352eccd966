"""A conversation goes on: of its history nothing is computed again but what fills no page."""

from __future__ import annotations

import pytest

from accel.backend import PAGE_LEN
from tests.fakes.runtime import FakeServing
from tests.inference.api.wire import Wire, wait_until


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("num_words", [1, 100, 133])
def test_all_full_pages_of_the_history_are_found(
    wire: Wire, serving: FakeServing, num_words: int, stream: bool
) -> None:
    """Those of the first question, those that its answer filled, and the one they share."""
    answer = "well" + " the" * 39
    num_answer = len(serving.say(answer))
    messages = [{"role": "user", "content": "the " * num_words}]
    (replica,) = serving.runtime.replicas()

    def turn() -> dict:
        options = {"stream_options": {"include_usage": True}} if stream else {}
        body = {"messages": messages, "stream": stream, **options}
        reply = wire.post("/v1/chat/completions", body)
        wait_until(lambda: serving.num_busy() == 0)
        return (reply.chunks[-1] if stream else reply.json)["usage"]

    first = turn()
    computed = replica.worker.stats().counts.num_prompt_tokens
    assert computed == first["prompt_tokens"]
    messages += [
        {"role": "assistant", "content": answer},
        {"role": "user", "content": "And then?"},
    ]
    second = turn()
    num_history = first["prompt_tokens"] + num_answer
    num_cached = second["prompt_tokens_details"]["cached_tokens"]
    assert num_cached == num_history // PAGE_LEN * PAGE_LEN > 0
    grown = replica.worker.stats().counts.num_prompt_tokens - computed
    assert grown == second["prompt_tokens"] - num_cached
