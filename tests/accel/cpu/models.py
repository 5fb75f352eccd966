"""Small programs of random float weights, and one model file's program, for tests of the CPU backend."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accel.backend import Limits, StepBatch, run_step
from accel.cpu.backend import CpuBackend
from inference.model.architectures import record
from inference.model.builder import Builder
from inference.model.fusion import fuse
from inference.model.gguf import read_gguf
from kernels.specs.tensor import Part, RopeTable, Tensor, Vector, Weight

VOCAB_SIZE = 72  # no multiple of 16


def silent(phase, share):
    """A progress callback."""


def float_tensor(rows, k, seed, scale=None):
    values = np.random.default_rng(seed).standard_normal((rows, k))
    values = (values * (scale or k**-0.5)).astype(np.float32)
    return Tensor(f"t{seed}", "F32", (rows, k), values.reshape(-1).view(np.uint8))


def float_weight(rows, k, seed, scale=None):
    return Weight(f"w{seed}", (Part(float_tensor(rows, k, seed, scale)),))


def vector(n, seed, mean=0.0):
    values = mean + 0.3 * np.random.default_rng(seed).standard_normal(n)
    return Vector(f"v{seed}", values.astype(np.float32))


@dataclass(frozen=True)
class Attention:
    """What varies between architectures."""

    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 32
    num_pairs: int | None = None
    window: int = 0
    bias: bool = False
    norm: bool = False
    scale: float | None = None
    magnitude: float = 1.0


def attention_program(spec, width=32, num_layers=1):
    """embed, then layers of norm, attention and residual, then logits."""
    b = Builder()
    x = b.embed(float_weight(VOCAB_SIZE, width, 1, scale=1.0))
    pairs = spec.num_pairs or spec.head_dim // 2
    rope = RopeTable(10000.0 ** (-np.arange(pairs) / pairs), spec.magnitude)
    q_width, kv_width = spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim
    for layer in range(num_layers):
        seed = 100 * (layer + 1)
        a = b.rms_norm(x, vector(width, seed, mean=1.0), 1e-5)
        q = b.matmul(a, float_weight(q_width, width, seed + 1))
        k = b.matmul(a, float_weight(kv_width, width, seed + 2))
        v = b.matmul(a, float_weight(kv_width, width, seed + 3))
        if spec.bias:
            q, k = (
                b.add_bias(q, vector(q_width, seed + 4)),
                b.add_bias(k, vector(kv_width, seed + 5)),
            )
            v = b.add_bias(v, vector(kv_width, seed + 6))
        if spec.norm:
            q = b.head_rms_norm(q, vector(spec.head_dim, seed + 7, mean=1.0), 1e-6)
            k = b.head_rms_norm(k, vector(spec.head_dim, seed + 8, mean=1.0), 1e-6)
        q, k = b.rope(q, spec.head_dim, rope), b.rope(k, spec.head_dim, rope)
        a = b.attention(q, k, v, head_dim=spec.head_dim, scale=spec.scale, window=spec.window)
        x = b.add(b.matmul(a, float_weight(width, q_width, seed + 9)), x)
    x = b.take_logit_rows(x)
    return fuse(b.finish(b.matmul(x, float_weight(VOCAB_SIZE, width, 2))))


def file_program(path):
    with read_gguf(path) as file:
        return fuse(record(file)[1])


def compile_file(path, limits):
    with read_gguf(path) as file:
        return CpuBackend().compile(fuse(record(file)[1]), limits, silent)


def limits(num_positions, num_threads=2, max_rows=64, max_logit_rows=64, num_slots=8):
    pages = -(-num_positions // 32)
    return Limits(
        max_rows, max_logit_rows, num_slots, num_slots * pages, pages, num_threads=num_threads
    )


def shuffled_pages(limits):
    """A page table in which nothing may rely on pages being neighbours."""
    pages = np.random.default_rng(0).permutation(limits.num_pages)
    return pages.reshape(limits.num_slots, -1).astype(np.int32)


def batch(tokens, positions, slots, logit_rows, page_table):
    columns = [np.asarray(column, np.int32) for column in (tokens, positions, slots, logit_rows)]
    return StepBatch(*columns, page_table)


def run_prompt(executor, tokens, limits, chunk_len, slot=0, start=0):
    """Logits of the rows that may want them: all of a chunk, or its last max_logit_rows."""
    table, out = shuffled_pages(limits), []
    for at in range(0, len(tokens), chunk_len):
        part = tokens[at : at + chunk_len]
        n = len(part)
        wanted = np.arange(max(0, n - limits.max_logit_rows), n)
        positions = np.arange(start + at, start + at + n)
        step = batch(part, positions, np.full(n, slot), wanted, table)
        out.append(run_step(executor, step).copy())
    return np.concatenate(out)
