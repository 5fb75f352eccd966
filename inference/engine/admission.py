"""Refuses what could never run, or not in the memory there is, before it is accepted.

Owns the numbers a sequence is accepted with. Knows no queue: waiting is the scheduler's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from inference.engine.errors import (
    ContextExceeded,
    EmptyPrompt,
    NoOutputWanted,
    NotEnoughMemory,
    TokenOutOfVocabulary,
)
from inference.engine.pressure import Pressure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from inference.engine.config import EngineConfig
    from inference.engine.params import SequenceRequest
    from inference.engine.pressure import PressureReading


@dataclass(frozen=True)
class Admission:
    """What a sequence may need and what there was when it was accepted.

    num_pages_at_most: KV pages of prompt and whole output, shared ones included; num_pages_free: pages
    that nobody held, of which those still known may be shared. num_ahead: sequences waiting before it.
    """

    num_pages_at_most: int
    num_pages_free: int
    num_ahead: int
    host_bytes: int
    pressure: Pressure


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


def check_memory(request: SequenceRequest, pressure: PressureReading) -> None:
    """Refuse what would itself leave the host short of memory; a host that is short already makes it wait.

    Raises: NotEnoughMemory.
    """
    if pressure() is not Pressure.CRITICAL and pressure(request.host_bytes) is Pressure.CRITICAL:
        raise NotEnoughMemory(request.host_bytes)


def _check_ids(where: str, ids: Iterable[int], vocab_size: int) -> None:
    for bound in (min(ids, default=0), max(ids, default=0)):
        if not 0 <= bound < vocab_size:
            raise TokenOutOfVocabulary(where, bound, vocab_size)
