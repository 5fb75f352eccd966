"""Where a request does not say how to sample, the model's own defaults hold."""

from __future__ import annotations

import pytest

from inference.engine.params import SamplingParams, SequenceRequest
from tests.fakes.runtime import CONTEXT_LEN, FakeServing
from tests.inference.api.wire import Wire

OWN = SamplingParams(
    temperature=0.6, top_k=20, top_p=0.95, min_p=0.05, repeat_penalty=1.1, repeat_last_n=-1
)


@pytest.fixture
def submitted(serving: FakeServing, monkeypatch: pytest.MonkeyPatch) -> list[SequenceRequest]:
    seen: list[SequenceRequest] = []
    (replica,) = serving.runtime.replicas()
    replica.sampling = OWN
    submit = replica.worker.submit
    monkeypatch.setattr(replica.worker, "submit", lambda r: seen.append(r) or submit(r))
    serving.say("yes")
    return seen


@pytest.mark.parametrize("ask", ["chat", "complete"])
def test_they_hold_for_what_is_not_said(
    wire: Wire, submitted: list[SequenceRequest], ask: str
) -> None:
    getattr(wire, ask)()
    sampling = submitted[0].sampling
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.6, 20, 0.95)
    assert (sampling.min_p, sampling.repeat_penalty) == (0.05, 1.1)
    assert sampling.repeat_last_n == CONTEXT_LEN


def test_what_is_said_wins_also_where_it_means_off(
    wire: Wire, submitted: list[SequenceRequest]
) -> None:
    wire.chat(temperature=0, top_k=-1, top_p=1, min_p=0, repeat_penalty=1, repeat_last_n=8)
    sampling = submitted[0].sampling
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0, 0, 1)
    assert (sampling.min_p, sampling.repeat_penalty, sampling.repeat_last_n) == (0, 1, 8)


def test_props_show_them(wire: Wire, submitted: list[SequenceRequest]) -> None:
    props = wire.get("/props").json
    shown = props["models"][0]["default_sampling"]
    assert (shown["temperature"], shown["top_k"], shown["presence_penalty"]) == (0.6, 20, 0)
    assert props["default_generation_settings"]["params"] == shown
