"""attention_qkv -> kernels: rotate and append, attend run by run, combine the runs.

Owns the KV pages' areas and the scratch of partial results; knows no other op.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.backend import PAGE_LEN
from accel.cuda.plan import Area, At, Call, PlannedOp, aligned
from kernels.cuda import catalogue, launches
from kernels.cuda.kv_types import part_bytes
from kernels.specs.program import Rows

if TYPE_CHECKING:
    from accel.backend import Limits
    from accel.cuda.step_inputs import StepInputs
    from accel.cuda.vectors import Vectors
    from kernels.specs.program import Op

_F32_BYTES = 4


class AttentionLowering:
    """`areas` are complete when all ops were lowered."""

    def __init__(self, limits: Limits, inputs: StepInputs, vectors: Vectors) -> None:
        self._limits, self._inputs, self._vectors = limits, inputs, vectors
        max_len = limits.max_pages_per_slot * PAGE_LEN
        self.run_len = launches.run_len(max_len)
        self._max_runs = launches.num_runs(max_len, self.run_len)
        self._pages: list[Area] = []
        self._partials: dict[int, Area] = {}  # by floats of one (row, run)

    @property
    def areas(self) -> list[Area]:
        return [*self._pages, *self._partials.values()]

    def ops(self, op: Op, qkv: At, stride: int, out: At) -> list[PlannedOp]:
        """Queries are rotated where they lie in `qkv`, whose rows are `stride` floats apart."""
        attrs, inputs, limits = op.attrs, self._inputs, self._limits
        heads, kv_heads, head_dim = attrs["num_heads"], attrs["num_kv_heads"], attrs["head_dim"]
        window, pages_per_slot = attrs["window"], limits.max_pages_per_slot
        parts = launches.head_parts(heads // kv_heads)
        group = heads // kv_heads // parts
        keys, values = self._layer(attrs["layer"], kv_heads, head_dim)
        partial = self._partial(heads * (head_dim + 2))
        angles = self._vectors.at(attrs["rope"])
        optional = [
            self._vectors.at(op.vectors[name]) if name in op.vectors else None
            for name in ("bias", "q_gain", "k_gain")
        ]
        where = (inputs.positions, inputs.slots, inputs.page_table)
        run_len, max_runs = self.run_len, self._max_runs
        rotate = catalogue.rope_append(limits.kv_type)
        attend = catalogue.attend_run(limits.kv_type, head_dim, group)
        combine = catalogue.combine_runs(head_dim)

        def rotate_call(n: int, num_runs: int) -> Call:
            sizes = (heads, kv_heads, head_dim, attrs["rope"].num_pairs, stride, pages_per_slot)
            arguments = (qkv, *optional, angles, *where, keys, values, *sizes, float(attrs["eps"]))
            return Call(rotate, launches.rope_grid(heads, kv_heads, n), arguments)

        def attend_call(n: int, num_runs: int) -> Call:
            sizes = (kv_heads, parts, stride, pages_per_slot, run_len, max_runs, window)
            arguments = (qkv, keys, values, *where, partial, *sizes, float(attrs["scale"]))
            return Call(attend, (num_runs, kv_heads * parts, n), arguments)

        def combine_call(n: int, num_runs: int) -> Call:
            arguments = (partial, inputs.positions, out, heads, run_len, max_runs, window)
            return Call(combine, (heads, n, 1), arguments)

        return [
            PlannedOp("attention_qkv", Rows.STEP, rotate_call, (rotate,)),
            PlannedOp("attention_qkv", Rows.STEP, attend_call, (attend,)),
            PlannedOp("attention_qkv", Rows.STEP, combine_call, (combine,)),
        ]

    def _layer(self, layer: int, kv_heads: int, head_dim: int) -> tuple[At, At]:
        """Where the layer's keys and values lie, half a page area each."""
        limits = self._limits
        half = limits.num_pages * kv_heads * part_bytes(limits.kv_type, head_dim)
        area = Area("kv", f"the KV pages of layer {layer}", aligned(2 * half))
        self._pages.append(area)
        return At(area), At(area, half)

    def _partial(self, floats: int) -> At:
        """Scratch that all layers of this shape share: they run one after another."""
        if floats not in self._partials:
            num_bytes = self._limits.max_rows * self._max_runs * floats * _F32_BYTES
            self._partials[floats] = Area("buffers", "partial attention", aligned(num_bytes))
        return At(self._partials[floats])
