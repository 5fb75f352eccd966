"""Refuses what could never run, before it is accepted. Knows no queue: waiting is the scheduler's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inference.engine.errors import (
    ContextExceeded,
    EmptyPrompt,
    NoOutputWanted,
    TokenOutOfVocabulary,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from inference.engine.config import EngineConfig
    from inference.engine.params import SequenceRequest


def check_request(request: SequenceRequest, vocab_size: int, config: EngineConfig) -> None:
    """Raises: EmptyPrompt, NoOutputWanted, ContextExceeded, TokenOutOfVocabulary."""
    if not request.prompt_ids:
        raise EmptyPrompt
    if request.max_tokens < 1:
        raise NoOutputWanted(request.max_tokens)
    num_prompt = len(request.prompt_ids)
    if num_prompt + request.max_tokens > config.longest_sequence_len:
        raise ContextExceeded(num_prompt, request.max_tokens, config.longest_sequence_len)
    _check_ids("the prompt", request.prompt_ids, vocab_size)
    _check_ids("logit_bias", request.sampling.logit_bias, vocab_size)


def _check_ids(where: str, ids: Iterable[int], vocab_size: int) -> None:
    for bound in (min(ids, default=0), max(ids, default=0)):
        if not 0 <= bound < vocab_size:
            raise TokenOutOfVocabulary(where, bound, vocab_size)
