"""Whole prompts through an executor, and their comparison with stored reference logits.

Owns the cutting of one sequence into steps; knows nothing about which backend runs them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accel.backend import PAGE_LEN, Limits, StepBatch, run_step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from accel.backend import Executor

PROMPTS = ("short", "english", "mixed")


def one_slot_limits(num_positions: int, kv_type: str = "f32", num_threads: int = 1) -> Limits:
    """Room for one sequence of num_positions, prefilled in one step with logits for every row."""
    num_pages = -(-num_positions // PAGE_LEN)
    return Limits(
        max_rows=num_positions,
        max_logit_rows=num_positions,
        num_slots=1,
        num_pages=num_pages,
        max_pages_per_slot=num_pages,
        kv_type=kv_type,
        num_threads=num_threads,
    )


def run_rows(
    executor: Executor,
    tokens: Sequence[int],
    first_position: int,
    page_table: npt.ArrayLike,
    slot: int = 0,
) -> npt.NDArray[np.float32]:
    """One step of one slot's neighbouring rows; logits of all of them, (N, V)."""
    num_rows = len(tokens)
    batch = StepBatch(
        tokens=np.asarray(tokens, np.int32),
        positions=np.arange(first_position, first_position + num_rows, dtype=np.int32),
        slots=np.full(num_rows, slot, np.int32),
        logit_rows=np.arange(num_rows, dtype=np.int32),
        page_table=np.asarray(page_table, np.int32),
    )
    return run_step(executor, batch).copy()


def prefill(
    executor: Executor, tokens: Sequence[int], limits: Limits, chunk_len: int | None = None
) -> npt.NDArray[np.float32]:
    """The prompt in slot 0, in chunks; logits of every position, (N, V)."""
    table = [list(range(limits.max_pages_per_slot))]
    chunk_len = chunk_len or len(tokens)
    starts = range(0, len(tokens), chunk_len)
    return np.concatenate(
        [run_rows(executor, tokens[at : at + chunk_len], at, table) for at in starts]
    )


def greedy(executor: Executor, prompt: Sequence[int], num_tokens: int, limits: Limits) -> list[int]:
    """The most likely tokens after the prompt, ties to the lowest id."""
    table = [list(range(limits.max_pages_per_slot))]
    logits = prefill(executor, prompt, limits)[-1]
    tokens = [int(logits.argmax())]
    while len(tokens) < num_tokens:
        position = len(prompt) + len(tokens) - 1
        logits = run_rows(executor, tokens[-1:], position, table)[0]
        tokens.append(int(logits.argmax()))
    return tokens


@dataclass(frozen=True)
class Comparison:
    """`max_diff` over the stored top logits of every position and all of the last one's."""

    max_diff: float
    argmax_wrong: int
    largest_margin_where_wrong: float


def compare(
    logits: npt.NDArray[np.float32], reference: Mapping[str, npt.NDArray[np.float32]], key: str
) -> Comparison:
    """`key` names a configuration and prompt of the reference file: "exact/kvf32/short"."""
    top_ids = reference[f"{key}/top_ids"].astype(np.int64)
    top_logits = reference[f"{key}/top_logits"]
    diff_top = np.abs(np.take_along_axis(logits, top_ids, axis=-1) - top_logits).max()
    diff_last = np.abs(logits[-1] - reference[f"{key}/last_logits"]).max()
    wrong = logits.argmax(axis=-1) != top_ids[:, 0]
    margins = (top_logits[:, 0] - top_logits[:, 1])[wrong]
    return Comparison(
        float(max(diff_top, diff_last)), int(wrong.sum()), float(margins.max(initial=0.0))
    )


def first_difference(
    tokens: Sequence[int], reference: Mapping[str, npt.NDArray[np.float32]], key: str
) -> tuple[int, float] | None:
    """Where greedy tokens leave the reference's, and its margin there; None where they do not."""
    wanted = reference[f"{key}/greedy_ids"]
    for at, (got, want) in enumerate(zip(tokens, wanted, strict=False)):
        if got != want:
            return at, float(reference[f"{key}/greedy_margin"][at])
    return None
