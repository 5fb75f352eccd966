"""What a caller asks of one sequence: the frozen values that cross from the API into the engine.

Ranges are checked where requests are parsed; these are plain values. Knows no text and no HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

_TOP = np.dtype([("id", "<i4"), ("logprob", "<f8")])


@dataclass(frozen=True)
class SamplingParams:
    """How to choose each token. temperature 0 is greedy (ties to the lowest id).

    top_k 0, top_p 1, min_p 0, typical_p 1 and repeat_penalty 1 each switch that filter off.
    Penalties look at prompt and output tokens for repeat_penalty (last `repeat_last_n`), at output
    tokens alone for presence and frequency (OpenAI's meaning). seed None: a fresh random one.
    num_logprobs None: none are reported; 0..20: the chosen token's and so many best ones.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    typical_p: float = 1.0
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None
    num_logprobs: int | None = None


@dataclass(frozen=True)
class SequenceRequest:
    """One sequence to run. `end_ids` finish it (and are not part of the output text).

    use_prefix_cache False: its pages are neither found among those kept nor kept for others.
    host_bytes: memory of the host, beside KV pages, that the caller may need until the end.
    """

    request_id: str
    prompt_ids: tuple[int, ...]
    max_tokens: int
    end_ids: frozenset[int] = frozenset()
    sampling: SamplingParams = SamplingParams()
    tenant: str = ""
    session_id: str = ""
    use_prefix_cache: bool = True
    host_bytes: int = 0


class FinishReason(Enum):
    END = "end"  # an end id was sampled
    LENGTH = "length"  # max_tokens or the context is full
    ABORTED = "aborted"  # the caller gave up
    ERROR = "error"  # the replica failed or was unloaded under it


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural-log probabilities after temperature 1 and before any filter or penalty.

    Thousands of them may wait for a reader, so the best ones are kept as 12 bytes each, not as
    objects of ten times that.
    """

    logprob: float
    packed_top: bytes

    @classmethod
    def pack(
        cls, logprob: float, ids: npt.NDArray[np.int64], logprobs: npt.NDArray[np.float64]
    ) -> TokenLogprobs:
        """Shapes: ids, logprobs (K,) of the K best tokens, best first."""
        top = np.empty(len(ids), _TOP)
        top["id"], top["logprob"] = ids, logprobs
        return cls(logprob, top.tobytes())

    @property
    def top(self) -> tuple[tuple[int, float], ...]:
        return tuple(np.frombuffer(self.packed_top, _TOP).tolist())


@dataclass(frozen=True, slots=True)
class Token:
    """One sampled token. An end id is delivered too, as the last token, with the finish."""

    id: int
    logprobs: TokenLogprobs | None = None


@dataclass(frozen=True)
class Finish:
    reason: FinishReason
    message: str = ""  # for ERROR: a sentence for the caller


@dataclass(frozen=True)
class Usage:
    """Counts of a sequence so far; num_output_tokens includes a final end id."""

    num_prompt_tokens: int
    num_cached_tokens: int
    num_output_tokens: int


@dataclass(frozen=True)
class Progress:
    """How far a sequence has come; durations in seconds, None for what has not begun.

    queue_wait_s: until its first slot. prefill_s: from there to its first token. decode_s: from the
    first token to the newest. num_chunks: steps that computed a piece of its prompt.
    num_surplus_tokens: sampled, and no part of what its reader used.
    """

    queue_wait_s: float | None
    prefill_s: float | None
    decode_s: float | None
    num_chunks: int
    num_preempted: int
    num_parked: int
    num_surplus_tokens: int
