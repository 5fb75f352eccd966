"""From a model file to a served replica: read, record, fuse, compile, warm, start the worker.

Owns the order of those stages and the sizes of a replica (pages, rows). Knows nothing about the
database: the supervisor hands it a frozen plan and gets a replica back.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accel.backend import PAGE_LEN, Backend, Executor, Limits, Progress, StepBatch, run_step
from accel.cpu.backend import CpuBackend
from accel.reference.backend import ReferenceBackend
from inference.engine.config import EngineConfig
from inference.engine.params import SamplingParams
from inference.engine.pressure import PressureReading, no_pressure
from inference.engine.step_log import StepLog
from inference.engine.worker import Worker
from inference.model.architectures import record
from inference.model.fusion import fuse
from inference.model.gguf import read_gguf
from inference.model.sampling_defaults import SamplingDefaults, read_sampling_defaults
from inference.runtime import ServedReplica
from inference.text.text_model import TextModel

if TYPE_CHECKING:
    from inference.model.config import ModelConfig

logger = logging.getLogger(__name__)

DEFAULT_CONTEXT_LEN = 8192


@dataclass(frozen=True)
class EngineSettings:
    """What the operator set for all replicas of this process. 0 means: choose (see `sizes`)."""

    backend: str
    kernel_cache_dir: Path
    num_threads: int
    isa: str = ""
    num_slots: int = 8
    context_len: int = 0
    kv_tokens: int = 0
    kv_type: str = "f16"
    chunk_len: int = 128
    queue_depth: int = 32
    queue_wait_s: float = 30.0
    prefix_cache: bool = True
    step_stats: bool = False


@dataclass(frozen=True)
class LoadPlan:
    """One replica to load."""

    replica_id: str
    served_name: str
    path: Path
    digest: str
    context_len: int = 0  # 0: the settings decide
    dies: tuple[int, ...] = ()  # in the order of the layers they take; none: the host
    quantise: bool = False  # float matrices become Q8_0


def sizes(
    settings: EngineSettings, model_context_len: int, wanted_context_len: int
) -> EngineConfig:
    """The replica's engine configuration. Never longer than the model was trained for."""
    wanted = wanted_context_len or settings.context_len or DEFAULT_CONTEXT_LEN
    context_len = min(wanted, model_context_len)
    kv_tokens = max(settings.kv_tokens or 2 * context_len, context_len)
    return EngineConfig(
        context_len=context_len,
        num_pages=-(-kv_tokens // PAGE_LEN),
        num_slots=settings.num_slots,
        chunk_len=settings.chunk_len,
        queue_depth=settings.queue_depth,
        queue_wait_s=settings.queue_wait_s,
        prefix_cache=settings.prefix_cache,
    )


def limits(config: EngineConfig, num_threads: int, kv_type: str = "f16") -> Limits:
    return Limits(
        max_rows=config.max_rows,
        max_logit_rows=config.max_logit_rows,
        num_slots=config.num_slots,
        num_pages=config.num_pages,
        max_pages_per_slot=config.max_pages_per_slot,
        kv_type=kv_type,
        num_threads=num_threads,
    )


Admit = Callable[[Mapping[int, int]], None]  # exact bytes by die; may refuse by raising


def admit_all(die_bytes: Mapping[int, int]) -> None:
    """For loads that nobody keeps account of."""


def backend_of(
    settings: EngineSettings, dies: tuple[int, ...] = (), admit: Admit = admit_all
) -> Backend:
    if dies:
        from accel.cuda.backend import CudaBackend  # only where there are dies

        return CudaBackend(dies, admit)
    if settings.backend == "reference":
        return ReferenceBackend()
    return CpuBackend(kernel_cache_dir=settings.kernel_cache_dir, isa=settings.isa or None)


def load_replica(
    plan: LoadPlan,
    settings: EngineSettings,
    progress: Progress,
    on_failure: Callable[[str, str], None],
    admit: Admit = admit_all,
    pressure: PressureReading = no_pressure,
) -> ServedReplica:
    """Load and start a replica; `on_failure(replica_id, reason)` is called should its worker die later.

    `admit({ordinal: bytes})` is asked before anything is put on a die, and may refuse by raising.
    `pressure` tells at any time, without waiting, how short the host is of memory.

    Raises: ModelError, TextError, AccelError, OSError, and what `admit` raises.
    """
    progress("reading the file", 0.0)
    with read_gguf(plan.path) as file:
        text = TextModel.from_metadata(file.metadata)
        if text.chat_template.is_default:
            logger.warning(
                "%s has no chat template of its own: chat messages reach it as ChatML, which a base model"
                " was not trained on. Its text completions are unaffected.",
                plan.served_name,
            )
        sampling = sampling_of(read_sampling_defaults(file.metadata))
        model, program = record(file, quantise=plan.quantise)
        file.forget_metadata()  # what packing takes beside the weights may lie where they lay
        config = sizes(settings, model.context_len, plan.context_len)
        backend = backend_of(settings, plan.dies, admit)
        sized = limits(config, settings.num_threads, settings.kv_type)
        executor = backend.compile(fuse(program), sized, progress)
    try:
        _warm(executor, model, config)
        worker = Worker(
            executor,
            vocab_size=model.vocab_size,
            config=config,
            name=plan.served_name,
            on_failure=lambda reason: on_failure(plan.replica_id, reason),
            on_step=StepLog(plan.served_name, sys.stderr.write) if settings.step_stats else None,
            pressure=pressure,
        )
        worker.start()
    except BaseException:
        executor.close()
        raise
    return ServedReplica(
        replica_id=plan.replica_id,
        served_name=plan.served_name,
        digest=plan.digest,
        context_len=config.context_len,
        text=text,
        worker=worker,
        memory=executor.memory,
        free_memory=executor.close,
        backend=backend.name,
        dies=plan.dies,
        sampling=sampling,
    )


def sampling_of(file: SamplingDefaults) -> SamplingParams:
    """What the model file asks for; OpenAI's defaults for the rest."""
    return SamplingParams(**{k: v for k, v in asdict(file).items() if v is not None})


def _warm(executor: Executor, model: ModelConfig, config: EngineConfig) -> None:
    """Run a narrow and a wide step, so that a replica is ready in the sense of having run."""
    pages = np.zeros((config.num_slots, config.max_pages_per_slot), np.int32)
    num_wide = min(config.chunk_len, config.context_len, PAGE_LEN)
    for num_rows in {1, num_wide}:
        token = np.full(num_rows, min(1, model.vocab_size - 1), np.int32)
        batch = StepBatch(
            tokens=token,
            positions=np.arange(num_rows, dtype=np.int32),
            slots=np.zeros(num_rows, np.int32),
            logit_rows=np.array([num_rows - 1], np.int32),
            page_table=pages,
        )
        run_step(executor, batch)
