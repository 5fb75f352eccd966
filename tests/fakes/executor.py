"""A seeded executor without a model: logits are a pure function of a sequence's own tokens.

Tokens are kept in pages and found again through the page table, each with a digest of what came before
it, as keys and values of a model depend on it. So a wrong page, position or slot gives wrong logits or
raises ContractBroken, as does a batch that breaks the backend's contract. Knows nothing of the engine.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from accel.backend import PAGE_LEN, MemoryUse, StepBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from inference.engine.config import EngineConfig

_UNWRITTEN = 0  # no digest in practice
_MULTIPLIER = 6364136223846793005  # any odd number does; this is Knuth's for MMIX


class ContractBroken(AssertionError):
    """The engine gave a batch that a backend need not accept."""


def logits_of(tokens: Iterable[int], vocab_size: int, seed: int = 0) -> npt.NDArray[np.float32]:
    """Next-token logits (V,) f32 in [-4, 4) after `tokens`: hashed, so every token matters."""
    digest = seed + 1
    for token in tokens:
        digest = digest_after(digest, token)
    return _logits(digest, vocab_size)


def digest_after(digest: int, token: int) -> int:
    """Of a prefix and its next token; the empty prefix has the digest seed + 1."""
    return ((digest ^ (token + 1)) * _MULTIPLIER + 1442695040888963407) % 2**64


def _logits(digest: int, vocab_size: int) -> npt.NDArray[np.float32]:
    mixed = (np.arange(1, vocab_size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) ^ (
        np.uint64(digest)
    )
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    return ((mixed >> np.uint64(40)).astype(np.float32) / np.float32(2**21)) - np.float32(4)


def greedy_continuation(
    prompt: Iterable[int], count: int, vocab_size: int, seed: int = 0
) -> list[int]:
    """What greedy decoding must give for a prompt, computed without any engine."""
    tokens = list(prompt)
    start = len(tokens)
    for _ in range(count):
        tokens.append(int(logits_of(tokens, vocab_size, seed).argmax()))
    return tokens[start:]


class FakeExecutor:
    """A step runs when it is finished: as late as it may.

    `before_step(n)` is called on the worker thread before step n (from 0) is started, `before_finish(n)`
    before it is finished; both may raise or block.
    """

    def __init__(
        self,
        vocab_size: int,
        config: EngineConfig,
        *,
        seed: int = 0,
        before_step: Callable[[int], None] | None = None,
        before_finish: Callable[[int], None] | None = None,
        change_logits: Callable[[npt.NDArray[np.float32], StepBatch], None] | None = None,
        num_in_flight: int = 1,
    ) -> None:
        self.vocab_size, self.config, self.seed = vocab_size, config, seed
        self.before_step, self.change_logits = before_step, change_logits
        self.before_finish, self.num_in_flight = before_finish, num_in_flight
        self.most_in_flight = 0
        self._in_flight: deque[StepBatch] = deque()
        self.pages = np.zeros((config.num_pages, PAGE_LEN), np.int64)
        self.digests = np.full((config.num_pages, PAGE_LEN), _UNWRITTEN, np.uint64)
        self.rows_of_steps: list[list[tuple[int, int]]] = []  # (slot, position) of each row
        self.closed = False

    @property
    def num_steps(self) -> int:
        return len(self.rows_of_steps)

    @property
    def num_in_flight_now(self) -> int:
        return len(self._in_flight)

    @property
    def memory(self) -> MemoryUse:
        return MemoryUse(0, self.pages.nbytes, 0)

    def start(self, batch: StepBatch) -> None:
        if self.before_step is not None:
            self.before_step(self.num_steps)
        check_batch(batch, self.config)
        slots, positions = batch.slots.tolist(), batch.positions.tolist()
        self.rows_of_steps.append(list(zip(slots, positions, strict=True)))
        arrays = (batch.tokens, batch.positions, batch.slots, batch.logit_rows, batch.page_table)
        self._in_flight.append(StepBatch(*(array.copy() for array in arrays)))
        self.most_in_flight = max(self.most_in_flight, len(self._in_flight))
        _must(len(self._in_flight) <= self.num_in_flight, "more steps in flight than it takes")

    def finish(self) -> npt.NDArray[np.float32]:
        if self.before_finish is not None:
            self.before_finish(self.num_steps - len(self._in_flight))
        return self._run(self._in_flight.popleft())

    def _run(self, batch: StepBatch) -> npt.NDArray[np.float32]:
        rows = list(zip(batch.slots.tolist(), batch.positions.tolist(), strict=True))
        for token, (slot, position) in zip(batch.tokens.tolist(), rows, strict=True):
            pages = batch.page_table[slot]
            before = self._digest_at(pages, position - 1) if position else self.seed + 1
            at = pages[position // PAGE_LEN], position % PAGE_LEN
            self.pages[at], self.digests[at] = token, digest_after(before, token)
        logits = np.empty((len(batch.logit_rows), self.vocab_size), np.float32)
        for out, row in zip(logits, batch.logit_rows.tolist(), strict=True):
            slot, position = rows[row]
            out[:] = _logits(self._read(batch.page_table[slot], position + 1), self.vocab_size)
        if self.change_logits is not None:
            self.change_logits(logits, batch)
        return logits

    def _digest_at(self, pages: npt.NDArray[np.int32], position: int) -> int:
        return int(self.digests[pages[position // PAGE_LEN], position % PAGE_LEN])

    def _read(self, pages: npt.NDArray[np.int32], num_positions: int) -> int:
        """The digest of a slot's tokens. Raises ContractBroken where one is unwritten or another's."""
        used = pages[: -(-num_positions // PAGE_LEN)]
        tokens = self.pages[used].reshape(-1)[:num_positions].tolist()
        digests = self.digests[used].reshape(-1)[:num_positions].tolist()
        digest = self.seed + 1
        for position, (token, stored) in enumerate(zip(tokens, digests, strict=True)):
            digest = digest_after(digest, token)
            if digest != stored:
                raise ContractBroken(f"position {position} does not hold what follows its prefix")
        return digest

    def close(self) -> None:
        self.closed = True


def check_batch(batch: StepBatch, config: EngineConfig) -> None:
    """What `accel.backend.StepBatch` and `Limits` promise. Raises: ContractBroken."""
    num_rows, slots, positions = len(batch.tokens), batch.slots.tolist(), batch.positions.tolist()
    _must(0 < num_rows <= config.max_rows, f"{num_rows} rows")
    _must(len(slots) == len(positions) == num_rows, "arrays of different lengths")
    _must(len(batch.logit_rows) <= config.max_logit_rows, "too many rows want logits")
    logit_rows = batch.logit_rows.tolist()
    _must(logit_rows == sorted(set(logit_rows)), "logit rows do not ascend")
    _must(all(0 <= row < num_rows for row in logit_rows), "a logit row is no row")
    changes = [slots[0]] + [b for a, b in itertools.pairwise(slots) if a != b]
    _must(len(changes) == len(set(changes)), "rows of one slot are not neighbours")
    for i in range(1, num_rows):
        if slots[i] == slots[i - 1]:
            _must(positions[i] == positions[i - 1] + 1, "positions of one slot do not ascend")
    shape = (config.num_slots, config.max_pages_per_slot)
    _must(batch.page_table.shape == shape, "the page table has the wrong shape")
    used: dict[int, int] = {}  # by how many slots, of the pages read or written
    written: set[int] = set()
    for slot in changes:
        of_slot = [p for s, p in zip(slots, positions, strict=True) if s == slot]
        pages = batch.page_table[slot, : max(of_slot) // PAGE_LEN + 1].tolist()
        _must(all(0 <= page < config.num_pages for page in pages), "a page that does not exist")
        _must(len(set(pages)) == len(pages), "a page used twice by one slot")
        written.update(pages[position // PAGE_LEN] for position in of_slot)
        for page in pages:
            used[page] = used.get(page, 0) + 1
    _must(all(used[page] == 1 for page in written), "a page is written that others use, too")
    for array in (batch.tokens, batch.positions, batch.slots, batch.logit_rows, batch.page_table):
        _must(array.dtype == np.int32, f"an array of {array.dtype}")


class Gate:
    """Lets a set number of steps pass, and holds the worker thread before the next one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._num_allowed = self._num_seen = self._num_come = 0
        self._is_open = False

    def __call__(self, _step: int) -> None:
        with self._changed:
            self._num_come += 1
            self._changed.notify_all()
            self._wait_for(lambda: self._is_open or self._num_allowed >= self._num_come)

    def wait_for_step(self) -> None:
        """Until the worker stands before, or has passed, one more step than at the last call."""
        with self._changed:
            self._num_seen += 1
            self._wait_for(lambda: self._num_come >= self._num_seen)

    def allow(self, num_steps: int = 1) -> None:
        with self._changed:
            self._num_allowed += num_steps
            self._changed.notify_all()

    def open(self) -> None:
        """Hold nothing any more."""
        with self._changed:
            self._is_open = True
            self._changed.notify_all()

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        _must(self._changed.wait_for(condition, timeout=20), "no step came or was allowed in 20 s")


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise ContractBroken(what)
