from __future__ import annotations

from functools import cache

from hypothesis import event, given, settings
from hypothesis import strategies as st

from inference.engine import scheduler
from inference.engine.config import EngineConfig
from inference.engine.params import SamplingParams
from tests.fakes.executor import FakeExecutor, greedy_continuation
from tests.inference.engine.driving import GREEDY, VOCAB_SIZE, request_of
from tests.inference.engine.schedules import run_schedule

SAMPLINGS = [
    GREEDY,
    SamplingParams(temperature=0.9, seed=7),
    SamplingParams(temperature=1.2, top_p=0.8, seed=8, num_logprobs=2),
    SamplingParams(temperature=0.8, top_k=5, repeat_penalty=1.3, seed=9),
    SamplingParams(temperature=0, frequency_penalty=0.9, logit_bias={3: -100}),
]
ALONE = EngineConfig(context_len=256, num_pages=8, num_slots=1, chunk_len=256)

steps_in_flight = st.integers(1, 2)

some_requests = st.lists(
    st.builds(
        request_of,
        prompt=st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=90),
        max_tokens=st.integers(1, 30),
        sampling=st.sampled_from(SAMPLINGS),
        end_ids=st.sets(st.integers(0, VOCAB_SIZE - 1), max_size=3),
    ),
    min_size=1,
    max_size=7,
)


def run(config, requests, arrivals, aborts=None, see=None, num_in_flight=1):
    def make_executor(before_step):
        return FakeExecutor(
            VOCAB_SIZE, config, before_step=before_step, num_in_flight=num_in_flight
        )

    return run_schedule(make_executor, VOCAB_SIZE, config, requests, arrivals, aborts, see)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), requests=some_requests)
def test_neighbours_arrival_chunks_and_aborts_do_not_change_a_sequence(data, requests):
    """Tokens and logprobs are those of the request run alone with its prompt in one chunk."""
    config = EngineConfig(
        context_len=128,
        num_pages=data.draw(st.integers(4, 24)),
        num_slots=data.draw(st.integers(1, 5)),
        chunk_len=data.draw(st.sampled_from([1, 3, 16, 31, 128])),
    )
    arrivals = [data.draw(st.integers(0, 30)) for _ in requests]
    aborts = data.draw(st.dictionaries(st.integers(0, 6), st.integers(1, 25), max_size=3))
    results = run(config, requests, arrivals, aborts, num_in_flight=data.draw(steps_in_flight))
    for index, (request, tokens) in enumerate(zip(requests, results, strict=True)):
        expected = run(ALONE, [request], [0])[0]
        if index in aborts:  # what was read before; an abort after the finish drops the rest, too
            assert tokens == expected[: len(tokens)]
        else:
            assert tokens == expected


def test_greedy_tokens_are_those_of_the_model_itself():
    """More sequences than slots, several pages each, against a continuation made without an engine."""
    prompts = [[(7 * i + j) % VOCAB_SIZE for j in range(1 + 13 * i)] for i in range(10)]
    config = EngineConfig(context_len=256, num_pages=20, num_slots=4, chunk_len=16)
    results = run(config, [request_of(p, 40) for p in prompts], list(range(10)))
    for prompt, tokens in zip(prompts, results, strict=True):
        assert [t.id for t in tokens] == greedy_continuation(prompt, 40, VOCAB_SIZE)


def long_requests(sampling):
    return [request_of([i] * (1 + 9 * i), 122 - 9 * i, sampling) for i in range(5)]


@cache
def alone(sampling_index):
    """The long requests' tokens, each run by itself."""
    return [run(ALONE, [request], [0])[0] for request in long_requests(SAMPLINGS[sampling_index])]


@settings(max_examples=40, deadline=None)
@given(
    num_slots=st.integers(2, 5),
    num_pages=st.integers(4, 7),
    chunk_len=st.sampled_from([1, 5, 32, 128]),
    arrivals=st.lists(st.integers(0, 40), min_size=5, max_size=5),
    sampling=st.sampled_from(SAMPLINGS),
    prefix_cache=st.booleans(),
    num_in_flight=steps_in_flight,
)
def test_a_preempted_sequence_goes_on_as_if_nothing_had_happened(
    num_slots, num_pages, chunk_len, arrivals, sampling, prefix_cache, num_in_flight
):
    """Each of five sequences grows to nearly the whole memory; random numbers and penalties go on, too."""
    requests = long_requests(sampling)
    config = EngineConfig(
        context_len=128,
        num_pages=num_pages,
        num_slots=num_slots,
        chunk_len=chunk_len,
        prefix_cache=prefix_cache,
    )
    stats = []
    results = run(config, requests, arrivals, None, stats.append, num_in_flight)
    assert results == alone(SAMPLINGS.index(sampling))
    event(f"preempted {min(stats[0].counts.num_preempted, 3)}")


def test_sequences_that_grow_past_the_memory_are_preempted(monkeypatch):
    monkeypatch.setattr(scheduler, "BEHIND_UNREAD", 10_000)  # one is read after the other here
    config = EngineConfig(context_len=128, num_pages=5, num_slots=4, chunk_len=16)
    requests = [request_of([i], 120) for i in range(4)]
    stats = []
    results = run(config, requests, [0, 0, 0, 0], see=stats.append)
    assert stats[0].counts.num_preempted >= 2
    for i, tokens in enumerate(results):
        assert [t.id for t in tokens] == greedy_continuation([i], 120, VOCAB_SIZE)


related_requests = st.lists(
    st.builds(
        lambda family, shared, tail, tenant, count, sampling: request_of(
            [family + i % 5 for i in range(shared)] + tail, count, sampling, tenant=tenant
        ),
        family=st.integers(0, 1),
        shared=st.integers(0, 80),
        tail=st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=16),
        tenant=st.sampled_from(["", "a"]),
        count=st.integers(1, 64),
        sampling=st.sampled_from(SAMPLINGS),
    ),
    min_size=2,
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), requests=related_requests)
def test_requests_that_share_beginnings_get_what_they_would_get_alone(data, requests):
    """Hits, evictions, preemptions and aborts in any order; the executor notices a page of another prefix."""
    config = EngineConfig(
        context_len=160,
        num_pages=data.draw(st.integers(5, 12)),
        num_slots=data.draw(st.integers(1, 5)),
        chunk_len=data.draw(st.sampled_from([1, 5, 32, 50, 128])),
    )
    arrivals = [data.draw(st.integers(0, 30)) for _ in requests]
    aborts = data.draw(st.dictionaries(st.integers(0, 7), st.integers(1, 40), max_size=2))
    stats = []
    results = run(config, requests, arrivals, aborts, stats.append, data.draw(steps_in_flight))
    for index, (request, tokens) in enumerate(zip(requests, results, strict=True)):
        expected = run(ALONE, [request], [0])[0]
        assert tokens == (expected[: len(tokens)] if index in aborts else expected)
    counts = stats[0].counts
    event("hits" if counts.num_cached_tokens else "no hits")
    event("preempted" if counts.num_preempted else "not preempted")
    event("evicted" if stats[0].num_pages_evicted else "not evicted")
