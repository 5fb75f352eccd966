"""How much of the host's memory one sequence may need until its answer is sent. An estimate from above.

Owns the sizes of ids, tokens and log probabilities on their way. KV pages are apart: a replica has
them from its load on.
"""

from __future__ import annotations

from inference.engine.scheduler import MAX_UNREAD

_PROMPT_ID_BYTES = 48  # as a Python int in a tuple, and in the sequence's array
_OUTPUT_ID_BYTES = 4
_TOKEN_BYTES = 400  # a token object, its text, and its share of the answer
_PACKED_LOGPROB_BYTES = 12
_LOGPROB_BYTES = 500  # formatted: text, its bytes one by one, and its JSON
_STREAM_BYTES = 512 << 10  # written and not yet taken by the client


def host_bytes(
    num_prompt_tokens: int, max_tokens: int, num_logprobs: int | None, *, is_stream: bool
) -> int:
    """A stream's answer leaves as it comes, so that no more than what is unread is ever held."""
    held_bytes = num_prompt_tokens * _PROMPT_ID_BYTES + max_tokens * _OUTPUT_ID_BYTES
    num_reported = 0 if num_logprobs is None else num_logprobs + 1
    if is_stream:
        token_bytes = _TOKEN_BYTES + num_reported * _PACKED_LOGPROB_BYTES
        return held_bytes + _STREAM_BYTES + min(max_tokens, MAX_UNREAD) * token_bytes
    return held_bytes + max_tokens * (_TOKEN_BYTES + num_reported * _LOGPROB_BYTES)
