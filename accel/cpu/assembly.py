"""From a fused program to an executor: lowered, packed, compiled, placed, and in memory.

Owns the memory of an executor and the order of making it; knows no op.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from accel.backend import MemoryUse
from accel.cpu.attention_lowering import page_bytes
from accel.cpu.compiling import cache_misses, compile_kernels
from accel.cpu.executor import CpuExecutor
from accel.cpu.lowering import check, lower
from accel.cpu.memory import Arena, touched
from accel.cpu.placement import Capacity, place
from accel.cpu.table import build_table, claim_counters
from accel.cpu.weights import pack_weights
from kernels.cpu.layout import NARROW_ROWS
from kernels.cpu.machine import BARRIER_BYTES, MAX_THREADS, read_counter

if TYPE_CHECKING:
    import numpy.typing as npt

    from accel.backend import Limits, Progress
    from kernels.specs.program import Program


def assemble(program: Program, limits: Limits, progress: Progress) -> CpuExecutor:
    """Raises: UnsupportedProgram, OutOfMemory."""
    assert 0 < limits.num_threads <= MAX_THREADS
    check(program, limits)
    started, started_count = time.perf_counter(), read_counter()
    weight_arena, kv_arena, step_arena = Arena("weights"), Arena("KV pages"), Arena("step buffers")
    pages = [
        kv_arena.take(limits.num_pages * page_bytes(shape, limits.kv_type))
        for shape in program.kv_layers
    ]
    known_misses = cache_misses()

    def report_kernels(share: float) -> None:
        """Says compiling once something is compiled: a warm start only reads its cache."""
        is_cold = cache_misses() > known_misses
        progress("compiling kernels" if is_cold else "loading kernels", share)

    with touched(pages, limits.num_threads):
        weights = pack_weights(
            program,
            weight_arena,
            limits.num_threads,
            lambda share: progress("packing weights", share),
        )
        lowered = lower(program, limits, weights)
        compile_kernels((op.kernel for op in lowered.ops), report_kernels)
    capacity = Capacity(limits.max_rows, limits.max_logit_rows, limits.num_threads * NARROW_ROWS)
    placement = place(lowered.ops, capacity)
    buffers = step_arena.take(placement.num_bytes)
    addresses = {area: _address(buffers) + span.start for area, span in placement.spans.items()}
    addresses |= {area: _address(p) for area, p in zip(lowered.kv_areas, pages, strict=True)}
    scratch = step_arena.take(limits.num_threads * lowered.scratch_bytes)
    barrier = step_arena.take(BARRIER_BYTES)
    logits, best = (
        buffers[placement.spans[area].start : placement.spans[area].end]
        for area in (lowered.logits, lowered.best)
    )
    report_kernels(1.0)
    counters = claim_counters(len(lowered.ops))
    return CpuExecutor(
        build_table(lowered.ops, placement, addresses, counters),
        counters,
        [f"{op.kernel} {op.label}" for op in lowered.ops],
        logits.view(np.float32).reshape(-1, lowered.logits.row_bytes // 4)[:, : program.vocab_size],
        best,
        limits,
        MemoryUse(weight_arena.taken_bytes, kv_arena.taken_bytes, step_arena.taken_bytes),
        scratch,
        barrier,
        (weights.arrays(), buffers, pages),
        (read_counter() - started_count) / (time.perf_counter() - started),
    )


def _address(memory: npt.NDArray[np.uint8]) -> int:
    return memory.ctypes.data
