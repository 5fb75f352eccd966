"""Choosing by answers gives the tokens of choosing with the logits at hand, and fetches few rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.engine.errors import SamplingFailed
from inference.engine.params import SamplingParams
from inference.engine.sampler import Sampler
from inference.engine.survey_sampler import SurveySampler
from tests.fakes.surveys import SurveyedLogits
from tests.inference.engine.test_sampler import logits_of, sequence_of

PEAKED = 6.0  # spread of logits whose nucleus is small, as a model's mostly is

CASES = {
    "greedy": SamplingParams(temperature=0),
    "plain": SamplingParams(),
    "cold": SamplingParams(temperature=0.3),
    "top_k": SamplingParams(temperature=0.8, top_k=40),
    "top_p": SamplingParams(top_p=0.95),
    "min_p": SamplingParams(temperature=1.3, min_p=0.05),
    "all filters": SamplingParams(top_k=50, typical_p=0.9, top_p=0.9, min_p=0.01),
    "penalties": SamplingParams(
        repeat_penalty=1.2, repeat_last_n=-1, presence_penalty=0.5, frequency_penalty=0.3, top_p=0.9
    ),
    "greedy, penalties and bias": SamplingParams(
        temperature=0, repeat_penalty=1.5, frequency_penalty=0.4, logit_bias={5: 7.0, 6: -100.0}
    ),
    "bias": SamplingParams(logit_bias={3: 12.5, 9: -100.0}),
}


def both(logits, params, prompt=(1, 2, 5), output=(3, 3, 7), num_steps=1):
    """The tokens of both samplers for every row, and the side that asks."""
    pairs = []
    sampler = Sampler(logits.shape[1], len(logits))
    asking = SurveySampler(logits.shape[1], sampler)
    surveyed = SurveyedLogits(logits)
    plain, surveying = (
        [sequence_of(p, prompt, output) for p in params] for _ in ("plain", "surveying")
    )
    for _ in range(num_steps):
        asked = asking.ask(surveying)
        found = asking.choose(asked, surveyed.answer(asked.surveys), surveyed)
        pairs.append((sampler.choose(logits, plain), found))
    return pairs, asking, surveyed


def same(token, other):
    if isinstance(token, SamplingFailed):
        return isinstance(other, SamplingFailed) and str(token) == str(other)
    if (token.logprobs is None) != (other.logprobs is None) or token.id != other.id:
        return False
    if token.logprobs is None:
        return True
    top, other_top = token.logprobs.top, other.logprobs.top
    return (
        [id_ for id_, _ in top] == [id_ for id_, _ in other_top]
        and [v for _, v in top] == pytest.approx([v for _, v in other_top], abs=1e-5)
        and token.logprobs.logprob == pytest.approx(other.logprobs.logprob, abs=1e-5)
    )


def seeded(params, seed, num_logprobs=None):
    return SamplingParams(**{**vars(params), "seed": seed, "num_logprobs": num_logprobs})


@pytest.mark.parametrize("vocab_size", [37, 49_152, 262_144])
@pytest.mark.parametrize("case", CASES)
def test_tokens_are_the_same(case, vocab_size):
    """Two rows, with numbers of their own; no row of a peaked distribution is fetched."""
    logits = logits_of(vocab_size, 1, PEAKED, num_rows=2)
    params = [seeded(CASES[case], seed) for seed in range(2)]
    pairs, asking, surveyed = both(logits, params, num_steps=1 + (vocab_size < 40_000))
    for expected, got in pairs:
        assert got == expected
    assert asking.num_fetched == surveyed.traffic.num_logits == 0


anything = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.2, 0.8, 1.0, 2.0]),
    top_k=st.sampled_from([0, 0, 1, 20, 600]),
    typical_p=st.sampled_from([1.0, 1.0, 0.5]),
    top_p=st.sampled_from([1.0, 0.9, 0.5, 0.0]),
    min_p=st.sampled_from([0.0, 0.02, 0.3]),
    repeat_penalty=st.sampled_from([1.0, 1.3]),
    repeat_last_n=st.sampled_from([-1, 3]),
    presence_penalty=st.sampled_from([0.0, 1.5]),
    logit_bias=st.dictionaries(st.integers(0, 29), st.sampled_from([-100.0, 5.0]), max_size=3),
    seed=st.integers(0, 1000),
    num_logprobs=st.sampled_from([None, None, 0, 5, 20]),
)


@settings(deadline=None, max_examples=150)
@given(
    params=st.lists(anything, min_size=1, max_size=4),
    vocab_size=st.sampled_from([30, 513, 3000]),
    spread=st.sampled_from([0.0, 1.0, 4.0]),
    seed=st.integers(0, 100),
)
def test_any_request_gets_the_same_token(params, vocab_size, spread, seed):
    """Whatever is asked for, on flat and peaked rows, with neighbours; fetched rows included."""
    logits = logits_of(vocab_size, seed, spread, num_rows=len(params))
    ((expected, got),), *_ = both(logits, params)
    assert all(map(same, expected, got)), (expected, got)


@pytest.mark.parametrize(
    ("params", "spread"),
    [
        (SamplingParams(typical_p=0.5), PEAKED),
        (SamplingParams(top_k=1000), PEAKED),
        (SamplingParams(top_p=0.9), 0.5),
        (SamplingParams(min_p=0.01), 0.0),
    ],
)
def test_rows_that_must_be_fetched(params, spread):
    """They are counted, and the token is the same."""
    logits = logits_of(5000, 3, spread)
    ((expected, got),), asking, surveyed = both(logits, [seeded(params, 4)])
    assert got == expected
    assert (asking.num_fetched, surveyed.traffic.num_logits) == (1, 5000)


def test_many_penalties():
    """More distinct tokens than a survey adjusts."""
    logits = logits_of(9000, 3)
    params = SamplingParams(temperature=0, repeat_penalty=2.0, repeat_last_n=-1)
    ((expected, got),), asking, _ = both(logits, [params], prompt=range(5000))
    assert got == expected
    assert asking.num_fetched == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("params", [SamplingParams(), SamplingParams(logit_bias={1: 2.0})])
def test_failures_say_the_same(params, bad):
    """A row that is no number, and one that the bias leaves nothing of."""
    logits = logits_of(3, num_rows=2)
    logits[0] = bad
    banned = SamplingParams(logit_bias={0: -100, 1: -100, 2: -100})
    ((expected, got),), *_ = both(logits, [params, banned])
    assert all(isinstance(token, SamplingFailed) for token in expected)
    assert [str(token) for token in got] == [str(token) for token in expected]


def test_penalised_logprobs_are_the_models():
    """Of a token that was penalised, one logit is fetched."""
    logits = logits_of(1000, 2, PEAKED)
    best = int(logits.argmax())
    params = SamplingParams(temperature=0, presence_penalty=0.001, num_logprobs=3)
    ((expected, got),), asking, surveyed = both(logits, [params], output=(best,))
    assert same(expected[0], got[0])
    assert (asking.num_fetched, surveyed.traffic.num_logits) == (0, 1)
