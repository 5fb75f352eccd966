"""A served replica that says what a test tells it to: real text model, real worker, scripted logits.

Owns the script. The executor under the worker is the fake one, so no model runs.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from accel.backend import MemoryUse
from inference.engine.config import EngineConfig
from inference.engine.worker import Worker
from inference.model.gguf import read_gguf
from inference.runtime import Runtime, ServedReplica
from inference.text.text_model import TextModel
from tests.fakes.executor import FakeExecutor
from tests.fakes.tiny_gguf import write_tiny_gguf

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

    from accel.backend import StepBatch

CONTEXT_LEN = 512


def tiny_text_model(folder: Path) -> TextModel:
    """The tokenizer and template of the tiny model file."""
    with read_gguf(write_tiny_gguf(folder / "tiny.gguf")) as file:
        return TextModel.from_metadata(dict(file.metadata))


@dataclass
class Script:
    """Token ids that every sequence puts out, one after the other; its end id follows the last."""

    end_id: int
    ids: list[int] = field(default_factory=list)
    num_said: dict[int, int] = field(default_factory=dict)  # by slot

    def force(self, logits: npt.NDArray[np.float32], batch: StepBatch) -> None:
        for slot, position in zip(batch.slots.tolist(), batch.positions.tolist(), strict=True):
            if position == 0:
                self.num_said[slot] = 0
        for out, row in zip(logits, batch.logit_rows.tolist(), strict=True):
            slot = int(batch.slots[row])
            said = self.num_said.get(slot, 0)  # position 0 may have been found in the cache
            self.num_said[slot] = said + 1
            out[self.ids[said] if said < len(self.ids) else self.end_id] = 20.0


class FakeServing:
    """One runtime. `before_step` runs on the worker thread and may block (`executor.Gate`) or raise."""

    def __init__(self, text: TextModel, *, strict_model: bool = False) -> None:
        self.text = text
        self.runtime = Runtime(strict_model=strict_model)
        self.before_step: Callable[[int], None] | None = None
        self.script = Script(next(iter(text.tokenizer.end_ids)))
        self._added = threading.Lock()

    def say(self, text: str, *, parse_special: bool = True) -> list[int]:
        """What every sequence from now on puts out; its token ids.

        Without parse_special the names of control tokens are spelled out, as ordinary text.
        """
        encode = self.text.tokenizer.encode
        self.script.ids = encode(text, add_special=False, parse_special=parse_special)
        return self.script.ids

    def add(self, name: str = "tiny", **config: float) -> ServedReplica:
        """Serve one more replica."""
        sizes = {"context_len": CONTEXT_LEN, "num_pages": 256, "num_slots": 8} | config
        engine = EngineConfig(**sizes)  # type: ignore[arg-type]
        executor = FakeExecutor(
            self.text.tokenizer.vocab_size,
            engine,
            before_step=self._step,
            change_logits=self.script.force,
        )
        worker = Worker(executor, self.text.tokenizer.vocab_size, engine, name)
        worker.start()
        replica = ServedReplica(
            replica_id=f"r{len(list(self.runtime.replicas()))}",
            served_name=name,
            digest="sha256:" + "0" * 64,
            context_len=engine.longest_sequence_len,
            text=self.text,
            worker=worker,
            memory=MemoryUse(weight_bytes=1000, kv_bytes=200, buffer_bytes=30),
            free_memory=lambda: None,
        )
        self.runtime.add(replica)
        return replica

    def num_busy(self) -> int:
        """Leases, slots, pages and queue places in use: 0 when nothing is left of any request."""
        busy = 0
        for replica in self.runtime.replicas():
            stats = replica.worker.stats()
            busy += replica.num_leases + stats.num_slots_used + stats.num_queued
            busy += stats.num_pages_used
        return busy

    def num_accepted(self) -> int:
        return sum(r.worker.stats().counts.num_accepted for r in self.runtime.replicas())

    def close(self) -> None:
        self.before_step = None
        for replica in self.runtime.replicas():
            replica.worker.close("The test is over.")

    def _step(self, number: int) -> None:
        if self.before_step is not None:
            self.before_step(number)
