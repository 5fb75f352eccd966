from __future__ import annotations

import pytest

from inference.engine.admission import check_request
from inference.engine.config import EngineConfig
from inference.engine.errors import (
    ContextExceeded,
    EmptyPrompt,
    NoOutputWanted,
    TokenOutOfVocabulary,
)
from inference.engine.params import SamplingParams
from tests.inference.engine.driving import request_of

CONFIG = EngineConfig(context_len=100, num_pages=16)


def test_the_longest_request_that_fits_is_accepted():
    check_request(request_of([0] * 60, 40), 10, CONFIG)


def test_one_token_more_than_the_context_is_refused_with_all_numbers():
    with pytest.raises(ContextExceeded) as refused:
        check_request(request_of([0] * 60, 41), 10, CONFIG)
    error = refused.value
    assert (error.num_prompt_tokens, error.max_tokens, error.context_len) == (60, 41, 100)


@pytest.mark.parametrize(
    ("num_prompt", "max_tokens", "was_capped", "advice"),
    [
        (60, 41, False, "Please shorten the prompt, or lower max_tokens to at most 40."),
        (99, 2, False, "Please shorten the prompt, or lower max_tokens to at most 1."),
        (60, 41, True, "Please shorten its instructions or last turn, or lower max_tokens to at most 40."),
        (100, 1, False, "Please shorten the prompt."),
        (150, 99, False, "Please shorten the prompt."),
        (150, 1, True, "Please shorten its instructions or last turn."),
        (60, 100, False, "Please lower max_tokens to at most 40."),
        (60, 100, True, "Please lower max_tokens to at most 40."),
        (150, 100, False, "Please shorten the prompt and lower max_tokens."),
    ],
)  # fmt: skip
def test_what_is_advised_helps(num_prompt, max_tokens, was_capped, advice):
    """A prompt that fills the context is not helped by a shorter answer, nor a long answer by a prompt."""
    error = ContextExceeded(num_prompt, max_tokens, 100, was_capped=was_capped)
    assert str(error).endswith(f" for the completion). {advice}")


def test_a_request_that_no_memory_could_hold_is_refused():
    """It would wait in the queue for ever: fewer pages than the context is long."""
    config = EngineConfig(context_len=1000, num_pages=2)
    check_request(request_of([0] * 60, 4), 10, config)
    with pytest.raises(ContextExceeded) as refused:
        check_request(request_of([0] * 60, 5), 10, config)
    assert refused.value.context_len == 64


def test_an_empty_prompt_is_refused():
    with pytest.raises(EmptyPrompt):
        check_request(request_of([]), 10, CONFIG)


@pytest.mark.parametrize("max_tokens", [0, -1])
def test_no_output_is_refused(max_tokens):
    with pytest.raises(NoOutputWanted):
        check_request(request_of([1], max_tokens), 10, CONFIG)


@pytest.mark.parametrize("token_id", [-1, 10, 2**70])
def test_token_ids_that_the_model_lacks_are_refused(token_id):
    with pytest.raises(TokenOutOfVocabulary) as refused:
        check_request(request_of([1, token_id, 2]), 10, CONFIG)
    assert (refused.value.token_id, refused.value.where) == (token_id, "the prompt")
    biased = SamplingParams(logit_bias={3: 1.0, token_id: 1.0})
    with pytest.raises(TokenOutOfVocabulary) as refused:
        check_request(request_of([1], sampling=biased), 10, CONFIG)
    assert (refused.value.token_id, refused.value.where) == (token_id, "logit_bias")
