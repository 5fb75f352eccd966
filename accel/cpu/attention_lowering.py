"""attention_qkv -> kernels: prepare queries and keys, attend in tasks, combine the tasks' results.

Owns the plans that layers with the same window share, and the sizes of what attention needs; knows
no other op.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from accel.backend import PAGE_LEN
from accel.cpu.memory import LINE_BYTES, round_up
from accel.cpu.records import Access, Area, MachineOp
from accel.errors import UnsupportedProgram
from kernels.cpu.attention import attention_scratch_bytes
from kernels.cpu.attention_plan import counter_offset, plan_bytes
from kernels.cpu.kv_types import IN_BLOCKS, KV_BLOCK, KV_TYPES, part_bytes
from kernels.cpu.layout import RUN, TILE_ROWS
from kernels.cpu.query_blocks import MAX_HEAD_DIM
from kernels.cpu.run_results import RESULT_TAIL
from kernels.specs.program import Rows

if TYPE_CHECKING:
    from accel.backend import Limits
    from accel.cpu.records import Column
    from accel.cpu.weights import PackedWeights
    from kernels.specs.program import KVShape, Op, Program


def page_bytes(shape: KVShape, kv_type: str) -> int:
    """Of one page of one layer: keys and values."""
    return 2 * shape.num_kv_heads * int(part_bytes.py_func(KV_TYPES[kv_type], shape.head_dim))


class _Plan:
    """How the layers of one window cut their attention into tasks."""

    def __init__(self, window: int, num_layers: int, limits: Limits) -> None:
        self.window, self._num_layers, self._max_rows = window, num_layers, limits.max_rows
        self._used = 0
        runs = -(-limits.max_pages_per_slot * PAGE_LEN // RUN)
        if window:
            runs = min(runs, -(-(window + TILE_ROWS) // RUN) + 1)
        self.capacity = limits.num_slots * runs
        num_bytes = plan_bytes(num_layers, limits.max_rows, self.capacity)
        self.area = Area(f"plan{window}", 1, round_up(num_bytes, LINE_BYTES))

    def op(self) -> MachineOp:
        columns: dict[str, Column] = {
            "PLAN": Access.whole(self.area),
            "WINDOW": self.window,
            "CAPACITY": self.capacity,
            "MAX_ROWS": self._max_rows,
            "NUM_COUNTERS": self._num_layers,
        }
        writes = (Access.whole(self.area),)
        return MachineOp("plan_attention", Rows.STEP, (), writes, columns, "plan")

    def next_counter(self) -> Access:
        offset = counter_offset(self._used)
        self._used += 1
        return Access(self.area, offset, offset + 4)


class AttentionLowering:
    def __init__(self, program: Program, limits: Limits, weights: PackedWeights) -> None:
        self._weights, self._max_pages = weights, limits.max_pages_per_slot
        self._shapes, self._kv_type = program.kv_layers, KV_TYPES[limits.kv_type]
        ops = [op for op in program.ops if op.kind == "attention_qkv"]
        windows = [op.attrs["window"] for op in ops]
        self._plans = {w: _Plan(w, windows.count(w), limits) for w in dict.fromkeys(windows)}
        self.plans = tuple(plan.op() for plan in self._plans.values())
        self.kv_areas = tuple(Area(f"kv{i}", 1, 0) for i in range(len(self._shapes)))
        self.scratch_bytes = max((_scratch_bytes(op.attrs["head_dim"]) for op in ops), default=0)

    @staticmethod
    def check(program: Program, limits: Limits) -> None:
        """Raises: UnsupportedProgram."""
        if limits.kv_type not in KV_TYPES:
            raise UnsupportedProgram("cpu", f"a KV cache of type {limits.kv_type}")
        for dim in {op.attrs["head_dim"] for op in program.ops if op.kind == "attention_qkv"}:
            if dim % 16:
                raise UnsupportedProgram("cpu", f"attention heads of {dim} values")
            if dim > MAX_HEAD_DIM:
                why = f"attention heads of {dim} values; {MAX_HEAD_DIM} at most"
                raise UnsupportedProgram("cpu", why)
            if limits.kv_type in IN_BLOCKS and dim % KV_BLOCK:
                why = f"heads of {dim} values, no multiple of {KV_BLOCK}; use f16"
                raise UnsupportedProgram("cpu", f"a KV cache of type {limits.kv_type} for {why}")

    def ops(self, op: Op, qkv: Area, out: Area, quantise: bool) -> tuple[MachineOp, ...]:
        """qkv is overwritten. `quantise`: out takes quantised rows."""
        layer = op.attrs["layer"]
        kv, plan = Access.whole(self.kv_areas[layer]), self._plans[op.attrs["window"]]
        heads, dim = op.attrs["num_heads"], op.attrs["head_dim"]
        attended = Area(f"attended.{op.output.index}", Rows.STEP, 4 * heads * dim)
        row_bytes = heads * _result_bytes(dim)
        partials = Area(f"partials.{op.output.index}", plan.capacity, row_bytes)
        shape: dict[str, Column] = {
            "HEADS": heads,
            "KV_HEADS": op.attrs["num_kv_heads"],
            "HEAD_DIM": dim,
            "KV": kv,
            "KV_TYPE": self._kv_type,
            "WINDOW": plan.window,
            "PLAN": Access.whole(plan.area),
            "PARTIALS": Access.whole(partials),
        }
        queries = Access(qkv, 0, 4 * heads * dim)
        results = (Access.whole(attended), Access.whole(partials))
        attend: dict[str, Column] = {
            **shape,
            "IN": Access.whole(qkv),
            "IN_STRIDE": qkv.row_bytes,
            "OUT": Access.whole(attended),
            "OUT_STRIDE": attended.row_bytes,
            "COUNTER": plan.next_counter(),
        }
        combine: dict[str, Column] = {
            **shape,
            "K": heads * dim,
            "IN": Access.whole(attended),
            "IN_STRIDE": attended.row_bytes,
            "OUT": Access.whole(out),
            "OUT_STRIDE": out.row_bytes,
            "OUT_SHARED": int(not out.private),
            "QUANTISE": int(quantise),
        }
        reads = (queries, kv, Access.whole(plan.area))
        return (
            MachineOp(
                "prepare_attention",
                Rows.STEP,
                (Access.whole(qkv),),
                (queries, kv),
                {**shape, **self._prepare_columns(op, qkv)},
                op.kind,
            ),
            MachineOp("attention", Rows.STEP, reads, results, attend, op.kind),
            MachineOp(
                "combine",
                Rows.STEP,
                (*results, Access.whole(plan.area)),
                (Access.whole(out),),
                combine,
                op.kind,
            ),
        )

    def _prepare_columns(self, op: Op, qkv: Area) -> dict[str, Column]:
        rope = op.attrs["rope"]
        tables = self._weights.angles(rope, self._max_pages)
        return {
            "IN": Access.whole(qkv),
            "IN_STRIDE": qkv.row_bytes,
            "SCALE": float(op.attrs["scale"]) / math.log(2),  # weights are powers of two
            "EPS": float(op.attrs["eps"]),
            "BIAS": self._weights.vector(op.vectors.get("bias")),
            "Q_GAIN": self._weights.vector(op.vectors.get("q_gain")),
            "K_GAIN": self._weights.vector(op.vectors.get("k_gain")),
            "PAGE_ANGLES": tables.pages.ctypes.data,
            "OFFSET_ANGLES": tables.offsets.ctypes.data,
            "NUM_PAIRS": rope.num_pairs,
        }


def _scratch_bytes(dim: int) -> int:
    """Of attention, or angles and three heads (preparing)."""
    return max(attention_scratch_bytes(dim), 8 * _result_bytes(dim))


def _result_bytes(dim: int) -> int:
    return 4 * (dim + RESULT_TAIL)
