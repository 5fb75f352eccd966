"""rope.cu, attention.cu and combine.cu together against the reference op, for all KV types."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from accel.cuda.rotation import angles_of
from kernels.cuda.catalogue import attend_run, combine_runs, rope_append
from kernels.cuda.kv_types import KV_TYPES, in_blocks, part_bytes
from kernels.cuda.launches import head_parts, num_runs, rope_grid
from kernels.reference.attention import LayerPages, Rows
from kernels.reference.attention_qkv import attention_qkv
from kernels.reference.kv_rounding import ROUNDINGS
from kernels.specs.tensor import RopeTable
from tests.kernels.cuda.bench import frozen

NUM_SLOTS, PAGES_PER_SLOT = 2, 12
NUM_PAGES = NUM_SLOTS * PAGES_PER_SLOT
EPS = 1e-6
# A key next to the middle between two half floats may be rounded the other way.
CLOSE = {"rtol": 1e-4, "atol": 2e-4}


@dataclass(frozen=True)
class Case:
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 32
    num_pairs: int = 16
    window: int = 0
    bias: bool = False
    norm: bool = False
    run_len: int = 256

    @property
    def width(self):
        return (self.num_heads + 2 * self.num_kv_heads) * self.head_dim


def random(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Layer:
    """The same layer on a die and in the reference: its parameters and its pages."""

    def __init__(self, case, kv_type="f16"):
        self.case, self.kv_type = case, kv_type
        self.table = RopeTable(10000.0 ** (-np.arange(case.num_pairs) / case.num_pairs), 1.1)
        self.bias = random(1, case.width) if case.bias else None
        self.gains = [1 + random(2 + i, case.head_dim) / 3 if case.norm else None for i in (0, 1)]
        shape = (NUM_PAGES, case.num_kv_heads, part_bytes(kv_type, case.head_dim))
        self.keys, self.values = np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
        shape = (NUM_PAGES, 32, case.num_kv_heads, case.head_dim)
        dtype = np.float16 if kv_type == "f16" else np.float32
        self.reference = LayerPages(
            np.zeros(shape, dtype), np.zeros(shape, dtype), ROUNDINGS.get(kv_type)
        )
        pages = np.random.default_rng(9).permutation(NUM_PAGES)
        self.page_table = frozen(pages.reshape(NUM_SLOTS, -1), np.int32)

    def expected(self, x, positions, slots):
        case = self.case
        return attention_qkv(
            x,
            Rows(positions, slots, self.page_table),
            self.reference,
            table=self.table,
            scale=case.head_dim**-0.5,
            window=case.window,
            eps=EPS,
            bias=self.bias,
            q_gain=self.gains[0],
            k_gain=self.gains[1],
        )

    def run(self, bench, x, positions, slots):
        """One step; the pages stay in the arrays between steps."""
        case, n, x = self.case, len(x), x.copy()
        heads, parts = (
            (case.num_heads, case.num_kv_heads),
            head_parts(case.num_heads // case.num_kv_heads),
        )
        angles = frozen(angles_of(self.table, 32 * PAGES_PER_SLOT), np.float32)
        where = (positions, slots, self.page_table)
        optional = [None if v is None else frozen(v, "f4") for v in (self.bias, *self.gains)]
        bench.call(
            rope_append(self.kv_type),
            rope_grid(*heads, n),
            *(x, *optional, angles, *where, self.keys, self.values),
            *(*heads, case.head_dim, case.num_pairs, case.width, PAGES_PER_SLOT, EPS),
        )
        max_runs = num_runs(32 * PAGES_PER_SLOT, case.run_len)
        group = case.num_heads // case.num_kv_heads // parts
        partial = np.full((n, case.num_heads, max_runs, case.head_dim + 2), np.nan, np.float32)
        bench.call(
            attend_run(self.kv_type, case.head_dim, group),
            (num_runs(int(positions.max()) + 1, case.run_len), case.num_kv_heads * parts, n),
            *(x, self.keys, self.values, *where, partial),
            *(case.num_kv_heads, parts, case.width, PAGES_PER_SLOT, case.run_len, max_runs),
            *(case.window, case.head_dim**-0.5),
        )
        y = np.full((n, case.num_heads * case.head_dim), np.nan, np.float32)
        bench.call(
            combine_runs(case.head_dim),
            (case.num_heads, n, 1),
            *(partial, positions, y, case.num_heads, case.run_len, max_runs, case.window),
        )
        return y


def ragged(rng, at):
    """Rows of both slots: positions and slots of a step that goes on from `at`."""
    counts = rng.integers(1, 9, NUM_SLOTS)
    positions = np.concatenate([np.arange(a, a + c) for a, c in zip(at, counts, strict=True)])
    at += counts
    return frozen(positions, np.int32), frozen(np.repeat(np.arange(NUM_SLOTS), counts), np.int32)


CASES = {
    "grouped": Case(),
    "one to one": Case(num_heads=2, head_dim=16, num_pairs=8),
    "bias": Case(bias=True),
    "norms": Case(num_heads=3, num_kv_heads=1, head_dim=64, num_pairs=32, norm=True),
    "part of a head rotated": Case(num_pairs=8, norm=True, bias=True),
    "window": Case(window=7),
    "wide heads": Case(num_heads=4, num_kv_heads=1, head_dim=256, num_pairs=128),
    "odd heads": Case(num_heads=2, num_kv_heads=1, head_dim=80, num_pairs=40),
    "large groups": Case(num_heads=12, num_kv_heads=1),
}


def stored(parts, kv_type):
    """What the bytes of a part mean. Shapes: (pages, heads, bytes) -> (pages, 32, heads, head_dim) f32."""
    if not in_blocks(kv_type):
        values = parts.view(np.float16 if kv_type == "f16" else np.float32)
        values = values.reshape(*parts.shape[:2], 32, -1)
    else:
        scale_bytes = {"q8_0": 2 / 34, "q4_0": 2 / 18}[kv_type] * parts.shape[-1]
        bits, scales = np.split(parts, [parts.shape[-1] - round(scale_bytes)], axis=-1)
        scales = np.ascontiguousarray(scales).view(np.float16).astype(np.float32)
        bits = bits.reshape(*scales.shape, -1)
        whole = bits if kv_type == "q8_0" else np.concatenate([bits & 15, bits >> 4], axis=-1)
        zero = 128 if kv_type == "q8_0" else 8
        values = (whole.astype(np.float32) - zero) * scales[..., None]
        values = values.reshape(*parts.shape[:2], 32, -1)
    return values.swapaxes(1, 2).astype(np.float32)


def check_pages(layer):
    """Blocks: a value on the edge between two steps falls to either side, and few do."""
    for parts, expected in (
        (layer.keys, layer.reference.keys),
        (layer.values, layer.reference.values),
    ):
        got = stored(parts, layer.kv_type)
        if not in_blocks(layer.kv_type):
            np.testing.assert_allclose(got, expected, rtol=2e-3, atol=1e-3)
            continue
        steps = {"q8_0": 127, "q4_0": 8}[layer.kv_type]
        error, step = np.abs(got - expected), np.abs(expected).max() / steps
        assert error.max() < 1.01 * step
        assert (error > 1e-3 * step).mean() < 1e-3


@pytest.mark.parametrize("name", CASES)
def test_ragged_steps(bench, name):
    """Several steps of two slots, every one of which reads what those before it appended."""
    check_steps(bench, Layer(CASES[name]))


@pytest.mark.parametrize("name", ["norms", "part of a head rotated", "window", "wide heads"])
@pytest.mark.parametrize("kv_type", [kv_type for kv_type in KV_TYPES if kv_type != "f16"])
def test_kv_types(bench, kv_type, name):
    check_steps(bench, Layer(CASES[name], kv_type))


def check_steps(bench, layer):
    rng, at = np.random.default_rng(0), np.zeros(NUM_SLOTS, int)
    for step in range(4):
        positions, slots = ragged(rng, at)
        x = random(10 + step, len(positions), layer.case.width)
        got = layer.run(bench, x, positions, slots)
        np.testing.assert_allclose(got, layer.expected(x, positions, slots), **CLOSE)
    check_pages(layer)


@pytest.mark.parametrize(
    ("window", "run_len"), [(0, 128), (130, 128), (300, 128), (0, 256), (130, 256)]
)
def test_several_runs(bench, window, run_len):
    """Runs of one tile and of two: the last rows agree, whatever the chunks, bit for bit."""
    case, length = Case(window=window, run_len=run_len), 330
    x, slots = random(5, length, case.width), frozen(np.zeros(length), np.int32)
    positions = frozen(np.arange(length), np.int32)
    whole = Layer(case)
    y = whole.run(bench, x, positions, slots)
    np.testing.assert_allclose(y, whole.expected(x, positions, slots), **CLOSE)
    chunked = Layer(case)
    for start in range(0, length, 110):
        part = slice(start, start + 110)
        got = chunked.run(bench, x[part], frozen(positions[part], "i4"), frozen(slots[part], "i4"))
        np.testing.assert_array_equal(got, y[part])
