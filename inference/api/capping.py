"""A conversation too long for its model, without its oldest turns. Knows no model and no limits.

Owns what a turn is and which may go. A turn begins with a user's message and ends before the next
one: calls keep their results, and templates that insist on taking turns are content. Instructions at
the beginning and the last turn always stay.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Message = dict[str, Any]

MAX_TRIES = 8  # renderings; the first estimates come within a turn or two of the best


@dataclass(frozen=True)
class Rendered:
    """A conversation as its model reads it, and how many of its messages were left out."""

    text: str
    ids: tuple[int, ...]
    num_dropped: int = 0


def without_oldest_turns(
    messages: Sequence[Message],
    whole: Rendered,
    max_prompt_len: int,
    render: Callable[[Sequence[Message]], Rendered],
) -> Rendered:
    """Few turns left out so that max_prompt_len tokens are enough; if none do, as many as may be.

    `whole` is the rendering of all messages, and too long. Each try renders what would be left, so how
    many turns must go is estimated from how many bytes each of them has.
    """
    num_leading = _num_leading(messages)
    starts = _turn_starts(messages, num_leading)
    if len(starts) < 2:
        return whole

    def attempt(index: int) -> Rendered:
        left = render([*messages[:num_leading], *messages[starts[index] :]])
        return Rendered(left.text, left.ids, starts[index] - num_leading)

    sizes = [len(msgspec.json.encode(each)) for each in messages]
    before = [0, *accumulate(sizes)]
    dropped_bytes = [before[start] - before[num_leading] for start in starts]
    too_few, enough = 0, len(starts) - 1
    longest, best = whole, attempt(enough)
    if len(best.ids) > max_prompt_len:
        return best
    for _ in range(MAX_TRIES):
        if enough - too_few == 1:
            break
        # Tokens fall with bytes, almost in a line between the two points that are known.
        span = dropped_bytes[enough] - dropped_bytes[too_few]
        excess = (len(longest.ids) - max_prompt_len) / max(len(longest.ids) - len(best.ids), 1)
        wanted_bytes = dropped_bytes[too_few] + span * excess
        index = bisect_left(dropped_bytes, wanted_bytes, too_few + 1, enough - 1)
        tried = attempt(index)
        if len(tried.ids) > max_prompt_len:
            too_few, longest = index, tried
        else:
            enough, best = index, tried
    return best


def _num_leading(messages: Sequence[Message]) -> int:
    """Messages that instruct the model, before any others."""
    roles = [each["role"] for each in messages]
    return next(
        (i for i, role in enumerate(roles) if role not in ("system", "developer")), len(roles)
    )


def _turn_starts(messages: Sequence[Message], num_leading: int) -> list[int]:
    """Where each turn begins. Several messages of a user in a row are one; so is what precedes the first."""
    return [
        i
        for i in range(num_leading, len(messages))
        if i == num_leading or (messages[i]["role"] == "user" and messages[i - 1]["role"] != "user")
    ]
