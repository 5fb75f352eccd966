from __future__ import annotations

import collections
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.engine.errors import SamplingFailed
from inference.engine.filters import narrow
from inference.engine.params import SamplingParams
from inference.engine.penalties import adjust
from inference.engine.sampler import Sampler
from inference.engine.sampler_state import MIN_TEMPERATURE
from inference.engine.sequence import Sequence, State
from inference.engine.stream import StreamFeed
from tests.inference.engine import slow_sampling
from tests.inference.engine.driving import request_of


def sequence_of(sampling, prompt=(0,), output=()):
    sequence = Sequence(request_of(prompt, len(output) + 500, sampling), StreamFeed(), 0.0)
    sequence.state = State.DECODE
    for token in output:
        sequence.append(token, 0.0)
    return sequence


def logits_of(vocab_size, seed=0, spread=3.0, num_rows=1):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(num_rows, vocab_size)) * spread).astype(np.float32)


def choose_one(logits, sampling, **sequence):
    return Sampler(logits.shape[1], 8).choose(logits, [sequence_of(sampling, **sequence)])[0]


filter_params = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.2, 0.8, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 3, 20, 10**9]),
    typical_p=st.sampled_from([1.0, 0.95, 0.5, 0.1]),
    top_p=st.sampled_from([1.0, 0.999, 0.9, 0.5, 0.0]),
    min_p=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
)


@settings(deadline=None, max_examples=150)
@given(params=filter_params, vocab_size=st.integers(2, 400), seed=st.integers(0, 1000))
def test_filters_leave_what_the_slow_implementation_leaves(params, vocab_size, seed):
    logits = logits_of(vocab_size, seed)[0]
    expected = slow_sampling.survivors(logits.tolist(), params)
    weights = np.exp((logits - logits.max()) / np.float32(params.temperature))
    left = narrow(weights, float(weights.sum(dtype=np.float64)), params)
    if params.top_k or params.typical_p < 1 or params.top_p < 1 or params.min_p > 0:
        assert left.ids.tolist() == sorted(expected)
        shares = left.weights / left.weights.sum()
        assert shares.tolist() == pytest.approx([expected[t] for t in sorted(expected)], rel=1e-4)


def test_typical_p_bears_weights_too_small_for_a_probability():
    """The least weight there is, divided by a mass of four, is 0, of which there is no logarithm."""
    weights = np.array([1.0, 1.0, 1e-45, 0.9, 1.0, 0.1], np.float32)
    params = SamplingParams(typical_p=0.5)
    left = narrow(weights, float(weights.sum()), params)
    without = narrow(np.delete(weights, 2), float(weights.sum()), params)
    assert left.weights.tolist() == without.weights.tolist()
    assert 2 not in left.ids


@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0])
@pytest.mark.parametrize("top_p", [0.1, 0.95, 0.99999])
def test_top_p_is_exact_on_large_vocabularies_flat_or_peaked(spread, top_p):
    logits = logits_of(40_000, 5, spread)[0]
    weights = np.exp(logits - logits.max())
    total = float(weights.sum(dtype=np.float64))
    order = np.lexsort((np.arange(len(weights)), -weights))
    sums = np.cumsum(weights[order], dtype=np.float64)
    left = narrow(weights, total, SamplingParams(top_p=top_p))
    count = len(left.ids)
    assert sorted(order[:count]) == left.ids.tolist()
    assert sums[count - 1] >= top_p * total * (1 - 1e-9)
    assert count == 1 or sums[count - 2] < top_p * total * (1 + 1e-9)


def test_a_nucleus_of_nothing_is_the_best_token():
    """top_p 0 on logits that are all alike, of more tokens than are guessed to matter."""
    assert choose_one(np.zeros((1, 600), np.float32), SamplingParams(top_p=0.0)).id == 0


penalties = st.builds(
    SamplingParams,
    temperature=st.just(0.0),
    repeat_penalty=st.sampled_from([1.0, 1.3, 0.7]),
    repeat_last_n=st.sampled_from([-1, 0, 3, 64]),
    presence_penalty=st.sampled_from([0.0, 1.5, -2.0]),
    frequency_penalty=st.sampled_from([0.0, 0.5, -1.0]),
    logit_bias=st.dictionaries(
        st.integers(0, 29), st.sampled_from([-100.0, -5.0, 5.0, 100.0]), max_size=4
    ),
)


@settings(deadline=None)
@given(
    params=penalties,
    prompt=st.lists(st.integers(0, 29), min_size=1, max_size=10),
    output=st.lists(st.integers(0, 29), max_size=80),
    seed=st.integers(0, 1000),
)
def test_penalties_and_bias_give_the_slow_implementations_logits(params, prompt, output, seed):
    logits = logits_of(30, seed)
    expected = slow_sampling.adjusted(logits[0], params, prompt, output)
    sequence = sequence_of(params, prompt, output)
    adjust(logits[0], sequence.sampler_state, sequence.ids[: sequence.num_ids])
    assert logits[0].tolist() == pytest.approx(expected, rel=1e-5, abs=1e-4)


def test_penalties_are_applied_before_the_choice():
    logits = np.array([[3.0, 2.0, 1.0]], np.float32)
    params = SamplingParams(temperature=0, presence_penalty=1.5)
    assert choose_one(logits, params, output=[1]).id == 0
    assert choose_one(logits, params, output=[0]).id == 1
    assert choose_one(logits, params, output=[0, 1]).id == 0


@pytest.mark.parametrize("top_p", [1.0, 0.99])
@pytest.mark.parametrize(("uniform", "expected"), [(0.0, 2), (1 - 2**-53, 3)])
def test_the_ends_of_the_uniform_range_never_draw_a_weightless_token(uniform, expected, top_p):
    sequence = sequence_of(SamplingParams(top_p=top_p))
    sequence.sampler_state.uniform = lambda: uniform
    logits = np.array([[-np.inf, -np.inf, 1.0, 1.0, -np.inf]], np.float32)
    assert Sampler(5, 1).choose(logits, [sequence])[0].id == expected


def test_the_executors_logits_are_not_changed():
    params = SamplingParams(temperature=0.7, repeat_penalty=1.5, logit_bias={1: 5.0}, seed=1)
    logits = logits_of(50)
    logits.flags.writeable = False
    assert choose_one(logits, params).id in range(50)


@pytest.mark.parametrize("temperature", [0.0, MIN_TEMPERATURE / 2, math.nan])
def test_greedy_takes_the_lowest_id_of_the_best(temperature):
    logits = np.array([[0.0, 3.0, 1.0, 3.0]], np.float32)
    assert choose_one(logits, SamplingParams(temperature=temperature)).id == 1


def test_a_banned_token_is_never_chosen_and_a_bias_of_100_always():
    logits = np.array([[9.0, 0.0, 1.0]], np.float32)
    assert choose_one(logits, SamplingParams(temperature=0, logit_bias={0: -100})).id == 2
    drawn = {choose_one(logits, SamplingParams(seed=s, logit_bias={1: 100})).id for s in range(20)}
    assert drawn == {1}


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.8),
        SamplingParams(temperature=1.5, top_p=0.8),
        SamplingParams(temperature=1.0, top_k=6, min_p=0.05),
        SamplingParams(temperature=1.0, typical_p=0.7),
    ],
    ids=["plain", "top_p", "top_k+min_p", "typical_p"],
)
def test_tokens_are_drawn_as_often_as_they_are_probable(params):
    """Chi-squared of 6,000 draws of a fixed seed against the slow implementation."""
    logits = logits_of(20, 7, 1.0)
    expected = slow_sampling.survivors(logits[0].tolist(), params)
    seeded = SamplingParams(**{**params.__dict__, "seed": 3})
    sampler, sequence = Sampler(20, 1), sequence_of(seeded)
    count = 6_000
    drawn = collections.Counter(sampler.choose(logits, [sequence])[0].id for _ in range(count))
    assert set(drawn) <= set(expected)
    chi_squared = sum((drawn[t] - count * p) ** 2 / (count * p) for t, p in expected.items())
    freedom = len(expected) - 1
    assert chi_squared < freedom + 4 * math.sqrt(2 * freedom)


def test_plain_sampling_reaches_every_part_of_a_large_vocabulary():
    """The draw runs over sums of runs first; tokens before, between and after them are all found."""
    vocab_size = 1000
    for token in (0, 255, 256, 511, 767, 768, 999):
        logits = np.full((1, vocab_size), -np.inf, np.float32)
        logits[0, token] = 1.0
        assert choose_one(logits, SamplingParams(seed=token)).id == token


def test_the_same_seed_gives_the_same_tokens_and_another_seed_others():
    logits = logits_of(5000, num_rows=40)

    def drawn(seed):
        sampler, sequence = Sampler(5000, 1), sequence_of(SamplingParams(seed=seed))
        return [sampler.choose(row[None], [sequence])[0].id for row in logits]

    assert drawn(11) == drawn(11)
    assert drawn(-11) == drawn(-11)
    assert len({tuple(drawn(seed)) for seed in (11, -11, 12, None, None)}) == 5


SOME_PARAMS = [
    SamplingParams(temperature=0),
    SamplingParams(temperature=0.8, seed=1),
    SamplingParams(temperature=0.8, top_p=0.9, seed=2),
    SamplingParams(temperature=1.3, top_k=40, min_p=0.01, seed=3),
    SamplingParams(temperature=0, repeat_penalty=1.4, logit_bias={4: -100}),
    SamplingParams(temperature=1, typical_p=0.8, presence_penalty=1.0, seed=4),
    SamplingParams(temperature=0.1, seed=5, num_logprobs=3),
]


@settings(deadline=None, max_examples=50)
@given(
    order=st.permutations(range(len(SOME_PARAMS))),
    cut=st.integers(1, len(SOME_PARAMS)),
    vocab_size=st.sampled_from([7, 97, 1001, 4099]),
)
def test_a_row_is_sampled_the_same_alone_and_beside_others(order, cut, vocab_size):
    """Token, logprobs and the random numbers left are equal bit for bit, at any place in a batch."""
    logits = logits_of(vocab_size, vocab_size, num_rows=len(SOME_PARAMS))
    alone = Sampler(vocab_size, 1)
    sequences = [sequence_of(params) for params in SOME_PARAMS]
    expected = [
        [alone.choose(logits[i : i + 1], [sequences[i]])[0] for _ in range(2)]
        for i in range(len(SOME_PARAMS))
    ]
    together = Sampler(vocab_size, 8)
    sequences = [sequence_of(params) for params in SOME_PARAMS]
    rows = list(order[:cut])
    for turn in range(2):
        tokens = together.choose(logits[rows], [sequences[i] for i in rows])
        assert tokens == [expected[i][turn] for i in rows]


@pytest.mark.parametrize("params", [SOME_PARAMS[0], SOME_PARAMS[2], SOME_PARAMS[4]])
@pytest.mark.parametrize(
    "bad", [[1.0, math.nan, 2.0], [-math.inf] * 3, [1.0, math.inf, 0.0], [math.nan] * 3]
)
def test_unusable_logits_fail_their_row_alone(bad, params):
    good = SamplingParams(temperature=0.5, seed=1)
    params = SamplingParams(**{**params.__dict__, "logit_bias": {}})
    logits = np.array([[0.0, 50.0, 0.0], bad, [50.0, 0.0, 0.0]], np.float32)
    sequences = [sequence_of(p) for p in (good, params, good)]
    first, failed, last = Sampler(3, 3).choose(logits, sequences)
    assert isinstance(failed, SamplingFailed)
    assert (first.id, last.id) == (1, 0)


def test_best_tokens_that_were_told_are_the_ones_looked_for():
    """Of rows that are greedy, adjusted, drawn from, reported and unusable: with the same random numbers."""
    kinds = [
        SamplingParams(temperature=0),
        SamplingParams(temperature=0, num_logprobs=2),
        SamplingParams(temperature=0, logit_bias={7: 100.0}),
        SamplingParams(temperature=1, top_p=0.9, seed=3, num_logprobs=1),
        SamplingParams(temperature=0),
        SamplingParams(temperature=1, seed=4),
    ]
    logits = logits_of(300, num_rows=len(kinds))
    logits[4, 40] = logits[5, 50] = math.nan
    told = [(logits.item(row, at), at) for row, at in enumerate(logits.argmax(axis=1).tolist())]
    told[4] = math.nan, 0
    looked, took = (
        Sampler(300, 8).choose(logits, [sequence_of(params) for params in kinds], best=best)
        for best in (None, told)
    )
    assert [str(token) for token in looked] == [str(token) for token in took]
    assert [isinstance(token, SamplingFailed) for token in took] == [False] * 4 + [True] * 2


def test_a_greedy_token_that_was_told_needs_no_logits():
    """Nothing of them is read."""
    (token,) = Sampler(3, 1).choose(
        None, [sequence_of(SamplingParams(temperature=0))], best=[(1.5, 2)]
    )
    assert token.id == 2


def test_banning_every_token_fails_the_row_and_says_why():
    params = SamplingParams(logit_bias={0: -100, 1: -100})
    failed = choose_one(np.zeros((1, 2), np.float32), params)
    assert isinstance(failed, SamplingFailed)
    assert "logit_bias" in str(failed)


def test_masked_logits_and_tiny_temperatures_do_not_overflow():
    logits = np.array([[np.finfo(np.float32).min, 3.0, 2.0]], np.float32)
    params = SamplingParams(temperature=MIN_TEMPERATURE, seed=0)
    assert choose_one(logits, params).id == 1


def test_logprobs_are_of_the_raw_logits():
    """Before temperature, penalties and filters; best first."""
    logits = logits_of(2000, 3)
    params = SamplingParams(temperature=0, num_logprobs=4, logit_bias={9: 100.0}, top_k=1)
    token = choose_one(logits, params)
    expected = [math.log(p) for p in slow_sampling.softmax(logits[0].tolist())]
    best = sorted(range(2000), key=lambda i: -expected[i])[:4]
    assert token.id == 9
    assert token.logprobs.logprob == pytest.approx(expected[9], abs=1e-4)
    assert [i for i, _ in token.logprobs.top] == best
    assert [p for _, p in token.logprobs.top] == pytest.approx(
        [expected[i] for i in best], abs=1e-4
    )


def test_logprobs_of_the_chosen_token_alone():
    token = choose_one(logits_of(10), SamplingParams(temperature=0, num_logprobs=0))
    assert token.logprobs.top == ()
    assert token.logprobs.logprob < 0


def test_more_logprobs_than_tokens_give_them_all():
    token = choose_one(logits_of(5), SamplingParams(temperature=0, num_logprobs=20))
    assert sorted(i for i, _ in token.logprobs.top) == [0, 1, 2, 3, 4]
