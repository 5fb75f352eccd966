"""Calling one CPU kernel by itself: an op record, a step header, each thread's share in turn."""

from __future__ import annotations

import ctypes
from concurrent.futures import Executor, Future
from functools import cache

import numpy as np
from numba import cfunc, types

from kernels.cpu.best import find_best
from kernels.cpu.formats import ENTRIES
from kernels.cpu.layout import GATED_GELU, GATED_SILU, OP, OP_COLUMNS, STEP, STORE
from kernels.cpu.matmul import matmul_scratch_bytes
from kernels.specs.quants import QUANTS, row_bytes
from kernels.specs.tensor import Part, Tensor, Weight

KERNELS = ENTRIES | {"find_best": find_best}
KERNEL_TYPE = types.void(types.CPointer(types.int64), types.CPointer(types.int64), types.int64)

# Where a block of each format holds float16 scales: random bytes there would not be numbers.
SCALES = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "IQ4_NL": (0,),
    "IQ4_XS": (0,),
}


class Heap:
    """Memory for packed weights: zeroed, on cache lines."""

    def take(self, num_bytes):
        return aligned(num_bytes)


class Inline(Executor):
    """Runs each task where it is submitted."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def aligned(num_bytes):
    raw = np.zeros(num_bytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + num_bytes]


def random_tensor(quant, num_rows, k, seed=0):
    """Rows of any bits, with scales between 0.001 and 0.1 of either sign."""
    rng = np.random.default_rng(seed)
    if quant in ("F32", "F16"):
        data = rng.standard_normal((num_rows, k)).astype({"F32": "f4", "F16": "f2"}[quant])
        return Tensor("w", quant, (num_rows, k), data.view(np.uint8).reshape(-1))
    if quant == "BF16":
        bits = rng.standard_normal((num_rows, k)).astype(np.float32).view(np.uint32) >> 16
        return Tensor("w", quant, (num_rows, k), bits.astype(np.uint16).view(np.uint8).reshape(-1))
    data = rng.integers(0, 256, num_rows * row_bytes(quant, k), dtype=np.uint8)
    blocks = data.reshape(-1, QUANTS[quant].block_bytes)
    for at in SCALES[quant]:
        scale = rng.uniform(0.001, 0.1, len(blocks)) * rng.choice([-1, 1], len(blocks))
        blocks[:, at : at + 2] = scale.astype(np.float16)[:, None].view(np.uint8)
    return Tensor("w", quant, (num_rows, k), data)


def weight_of(*tensors, row_order=None):
    return Weight("w", tuple(Part(tensor, row_order) for tensor in tensors))


@cache
def compiled(name):
    return cfunc(KERNEL_TYPE, cache=True, error_model="numpy")(KERNELS[name])


def call(name, columns, num_rows, *, threads=1, tokens=None, scratch_bytes=0):
    """Run the kernel on num_rows rows; float columns are stored as float64 bits."""
    op, step = np.zeros(OP_COLUMNS, np.int64), np.zeros(len(STEP), np.int64)
    for column, value in columns.items():
        op[OP[column]] = np.float64(value).view(np.int64) if isinstance(value, float) else value
    op[OP["ROWS"]] = STEP["S_ROWS"]
    scratch = aligned(max(threads * scratch_bytes, 64))
    step[STEP["S_ROWS"]], step[STEP["S_THREADS"]] = num_rows, threads
    step[STEP["S_SCRATCH"]], step[STEP["S_SCRATCH_BYTES"]] = scratch.ctypes.data, scratch_bytes
    if tokens is not None:
        step[STEP["S_TOKENS"]] = tokens.ctypes.data
    for tid in range(threads):
        compiled(name).ctypes(_pointer(op), _pointer(step), tid)


def _pointer(array):
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))


def embedded(part, tokens, scale=1.0):
    """Rows `tokens` of a packed table. Shapes: -> (len(tokens), k) f32."""
    out = np.full((len(tokens), part.k), np.nan, np.float32)
    columns = {"OUT": out.ctypes.data, "OUT_STRIDE": 4 * part.k, "OUT_SHARED": 1, "SCALE": scale}
    tokens = np.asarray(tokens, np.int32)
    call(part.embed_kernel, part.columns() | columns, len(tokens), tokens=tokens)
    return out


def multiplied(part, x, *, mode=STORE, out=None, threads=1, claims=False):
    """One packed part times activation rows (quantised or not, as its format wants them).

    claims: threads claim work; as they run in turn, the first takes all that can be claimed.

    Shapes: x (N, stride) -> (N, num_columns) f32, or (N, num_columns / 2) when gated.
    """
    if out is None:
        width = part.num_columns // (2 if mode in (GATED_SILU, GATED_GELU) else 1)
        out = np.full((len(x), width), np.nan, np.float32)
    columns = {"IN": x.ctypes.data, "IN_STRIDE": x.strides[0], "IN_SHARED": 1, "MODE": mode}
    columns |= {"OUT": out.ctypes.data + 4 * part.first_column, "OUT_STRIDE": out.strides[0]}
    counter = np.zeros(16, np.int32)
    columns["CLAIMED"] = counter.ctypes.data if claims else 0
    scratch_bytes = matmul_scratch_bytes(len(x), part.k)
    name, columns = part.matmul_kernel, part.columns() | columns
    call(name, columns, len(x), threads=threads, scratch_bytes=scratch_bytes)
    return out


def activations(part, x):
    """What the part's format multiplies with, and the values that stands for."""
    if part.format.activations == "f32":
        rows = aligned(x.nbytes).view(np.float32).reshape(x.shape)
        rows[:] = x
        return rows, x
    return quantised_rows(x)


def quantised_rows(x):
    """Activation rows as the quantised matmuls read them, and the values they stand for.

    Shapes: x (N, k) f32 -> uint8 (N, stride), f32 (N, k).
    """
    num_rows, k = x.shape
    nb = k // 32
    blocks = x.reshape(num_rows, nb, 32)
    peak = np.abs(blocks).max(-1)
    d = peak * np.float32(1 / 127)
    inverse = np.divide(np.float32(127), peak, out=np.zeros_like(peak), where=peak > 0)
    q = np.rint(blocks * inverse[..., None]).astype(np.int8)
    halves = q.reshape(num_rows, nb, 2, 16).sum(-1, dtype=np.int32)
    total = halves.sum(-1, dtype=np.int32)
    fields = (q, d, d * total.astype(np.float32), -total, -halves)
    packed = [np.ascontiguousarray(field).reshape(num_rows, -1).view(np.uint8) for field in fields]
    flat = np.concatenate(packed, 1)
    stride = -(-flat.shape[1] // 64) * 64
    rows = aligned(num_rows * stride).reshape(num_rows, stride)
    rows[:, : flat.shape[1]] = flat
    return rows, (q * d[..., None]).reshape(num_rows, k)
