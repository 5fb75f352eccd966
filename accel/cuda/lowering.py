"""A stage of a fused program -> planned launches over areas of die memory.

Owns which kernels an op becomes and what they are told; allocates nothing and launches nothing.
Attention, which becomes three kernels, has its own module. A norm that only matmuls read is folded into
them: they add up the squares while they read their input, and no launch is spent on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from accel.cuda.attention_lowering import AttentionLowering
from accel.cuda.buffers import buffer_bytes, place_buffers, stride_of
from accel.cuda.plan import Area, At, Call, PlannedOp
from accel.cuda.weights import PackedRows, alternating_rows, packed_rows
from accel.errors import UnsupportedProgram
from kernels.cuda import catalogue, launches
from kernels.cuda.kv_types import KV_BLOCK, KV_TYPES, in_blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel.backend import Limits
    from accel.cuda.plan import Argument
    from accel.cuda.split import Stage
    from accel.cuda.step_inputs import StepInputs
    from accel.cuda.vectors import Vectors
    from kernels.cuda.catalogue import Kernel
    from kernels.cuda.launches import Grid
    from kernels.specs.program import Buffer, Op, Program
    from kernels.specs.tensor import Weight

ACTIVATIONS = {"silu": 1, "gelu": 2}  # as in kernels/cuda/activations.cuh
MATMULS = frozenset({"matmul", "matmul_add", "matmul_gated"})
OPS = MATMULS | {
    *("embed", "rms_norm", "rms_norm_add", "take_rms_norm", "take_logit_rows"),
    *("add", "add_bias", "gated", "softcap", "attention_qkv"),
}


def check(program: Program, limits: Limits) -> None:
    """Raises: UnsupportedProgram for what no kernel takes (weights are checked when they are planned)."""
    if limits.kv_type not in KV_TYPES:
        raise UnsupportedProgram("cuda", f"a KV cache of type {limits.kv_type}")
    for op in program.ops:
        if op.kind not in OPS:
            raise UnsupportedProgram("cuda", f"the op {op.kind}")
        if op.attrs.get("activation", "silu") not in ACTIVATIONS:
            raise UnsupportedProgram("cuda", f"the activation {op.attrs['activation']}")
        if "rms_norm" in op.kind and op.output.width % 4:
            raise UnsupportedProgram("cuda", f"{op.kind} of a width that is no multiple of 4")
        head_dim = op.attrs.get("head_dim", 16)
        if head_dim % 16 or head_dim > catalogue.MAX_HEAD_DIM:
            raise UnsupportedProgram("cuda", f"attention heads of {head_dim} values")
        if in_blocks(limits.kv_type) and op.kind == "attention_qkv" and head_dim % KV_BLOCK:
            why = f"heads of {head_dim} values, no multiple of {KV_BLOCK}; use f16"
            raise UnsupportedProgram("cuda", f"a KV cache of type {limits.kv_type} for {why}")


@dataclass(frozen=True, eq=False)
class Lowered:
    """`output` is where the stage's last buffer lies, `received` where the stage before puts its own."""

    ops: tuple[PlannedOp, ...]
    weights: tuple[PackedRows, ...]
    areas: tuple[Area, ...]
    received: At | None
    output: At
    output_stride: int


def lower(
    stage: Stage, program: Program, limits: Limits, inputs: StepInputs, vectors: Vectors
) -> Lowered:
    """Raises: UnsupportedProgram."""
    return _Lowering(stage, program, limits, inputs, vectors).run()


@dataclass(frozen=True)
class _Input:
    """What a matmul reads: rows as they are, or with a norm and a choice of rows folded in."""

    buffer: Buffer
    rows: At | None = None
    gain: At | None = None
    eps: float = 0.0


@dataclass(eq=False)
class _Lowering:
    stage: Stage
    program: Program
    limits: Limits
    inputs: StepInputs
    vectors: Vectors
    _ops: list[PlannedOp] = field(default_factory=list)
    _packed: dict[tuple[Weight, ...], tuple[PackedRows, ...]] = field(default_factory=dict)
    _folded: dict[Buffer, _Input] = field(default_factory=dict)

    def run(self) -> Lowered:
        output = self.stage.sent or self.program.logits
        self._fold_norms()
        alive = [op for op in self.stage.ops if op.output not in self._folded]
        self._places = place_buffers(
            self._unfolded(alive), (output,), self.stage.received, self.limits
        )
        self._attention = AttentionLowering(self.limits, self.inputs, self.vectors)
        self._second = Area("buffers", "a second product", self._second_bytes())
        for op in alive:
            getattr(self, f"_{op.kind}")(op)
        areas = [rows.area for packed in self._packed.values() for rows in packed]
        areas += {at.area for at in self._places.values()}
        areas += [*self._attention.areas, self._second]
        received = self.stage.received
        return Lowered(
            tuple(self._ops),
            tuple(rows for packed in self._packed.values() for rows in packed),
            tuple(areas),
            None if received is None else self._places[received],
            self._places[output],
            stride_of(output),
        )

    # ---- norms inside matmuls ----------------------------------------------------------------------------

    def _fold_norms(self) -> None:
        readers: dict[Buffer, list[tuple[Op, int]]] = {}
        for op in self.program.ops:
            for at, buffer in enumerate(op.inputs):
                readers.setdefault(buffer, []).append((op, at))
        for op in self.stage.ops:
            if op.kind not in ("rms_norm", "take_rms_norm") or op.output == self.stage.sent:
                continue
            uses = readers.get(op.output, [])
            if uses and all(reader.kind in MATMULS and at == 0 for reader, at in uses):
                rows = self.inputs.logit_rows if op.kind == "take_rms_norm" else None
                gain = self.vectors.at(op.vectors["gain"])
                self._folded[op.output] = _Input(op.inputs[0], rows, gain, op.attrs["eps"])

    def _unfolded(self, ops: list[Op]) -> list[Op]:
        """The ops as reading what they really read, so that it is kept alive for them."""
        return [
            replace(op, inputs=tuple(self._source(buffer).buffer for buffer in op.inputs))
            for op in ops
        ]

    def _source(self, buffer: Buffer) -> _Input:
        return self._folded.get(buffer, _Input(buffer))

    # ---- matmuls -------------------------------------------------------------------------------------------

    def _matmul(self, op: Op) -> None:
        for rows in self._rows_of(op.weights[0]):
            self._product(op, rows, self._places[op.output], stride_of(op.output))

    def _matmul_add(self, op: Op) -> None:
        residual = self._places[op.inputs[1]]
        for rows in self._rows_of(op.weights[0]):
            self._product(
                op, rows, self._places[op.output], stride_of(op.output), residual=residual
            )

    def _matmul_gated(self, op: Op) -> None:
        out, stride = self._places[op.output], stride_of(op.output)
        pair = self._pair_of(op)
        if pair is not None:
            self._product(op, pair, out, stride, activation=ACTIVATIONS[op.attrs["activation"]])
            return
        second = At(self._second)
        for weight, target in zip(op.weights, (out, second), strict=True):
            for rows in self._rows_of(weight):
                self._product(op, rows, target, stride)
        code = ACTIVATIONS[op.attrs["activation"]]
        self._values(op, catalogue.GATED, (out, second), (code,))

    def _rows_of(self, weight: Weight) -> tuple[PackedRows, ...]:
        if (weight,) not in self._packed:
            self._packed[weight,] = packed_rows(weight)
        return self._packed[weight,]

    def _pair_of(self, op: Op) -> PackedRows | None:
        if op.weights not in self._packed:
            pair = alternating_rows(*op.weights)
            if pair is None:
                return None
            self._packed[op.weights] = (pair,)
        return self._packed[op.weights][0]

    def _second_bytes(self) -> int:
        unlike = [
            op for op in self.stage.ops if op.kind == "matmul_gated" and self._pair_of(op) is None
        ]
        return max((buffer_bytes(op.output, self.limits) for op in unlike), default=0)

    def _product(
        self,
        op: Op,
        rows: PackedRows,
        out: At,
        stride: int,
        residual: At | None = None,
        activation: int = 0,
    ) -> None:
        source = self._source(op.inputs[0])
        x, name = self._places[source.buffer], rows.fmt.name
        column = 4 * rows.first_column
        y = out.plus(column)
        added = None if residual is None else residual.plus(column)

        def call(num_rows: int, num_runs: int) -> Call:
            shape = launches.matmul_shape(rows.num_rows, num_rows)
            arguments: tuple[Argument, ...] = (
                *(*rows.planes, x, source.rows, source.gain, added, y),
                *(rows.num_rows, rows.k, num_rows, stride_of(source.buffer), stride, activation),
                source.eps,
            )
            grid = launches.matmul_grid(shape, rows.num_rows, num_rows)
            return Call(catalogue.matmul(name, shape), grid, arguments)

        kernels = tuple(catalogue.matmul(name, shape) for shape in catalogue.MATMULS)
        self._ops.append(PlannedOp(op.kind, op.output.rows, call, kernels))

    # ---- row ops -------------------------------------------------------------------------------------------

    def _embed(self, op: Op) -> None:
        table, *more = self._rows_of(op.weights[0])
        if more:
            raise UnsupportedProgram("cuda", f"the table {op.weights[0].name} in mixed formats")
        kernel = catalogue.embed(table.fmt.name)
        tail = (table.k, stride_of(op.output), float(op.attrs["scale"]))
        arguments = (*table.planes, self.inputs.tokens, self._places[op.output], *tail)
        self._rowwise(op, kernel, lambda n: launches.embed_grid(table.k, n), arguments)

    def _rms_norm(self, op: Op) -> None:
        rows = self.inputs.logit_rows if op.kind == "take_rms_norm" else None
        residual = self._places[op.inputs[1]] if len(op.inputs) > 1 else None
        gain, eps = self.vectors.at(op.vectors["gain"]), float(op.attrs["eps"])
        x, y = self._places[op.inputs[0]], self._places[op.output]
        arguments = (x, rows, gain, residual, y, op.output.width, stride_of(op.output), eps)
        self._rowwise(op, catalogue.RMS_NORM, lambda n: (n, 1, 1), arguments)

    _rms_norm_add = _take_rms_norm = _rms_norm

    def _add(self, op: Op) -> None:
        self._values(op, catalogue.ADD, [self._places[buffer] for buffer in op.inputs])

    def _add_bias(self, op: Op) -> None:
        bias = self.vectors.at(op.vectors["bias"])
        self._values(op, catalogue.ADD_BIAS, (self._places[op.inputs[0]], bias))

    def _gated(self, op: Op) -> None:
        inputs = [self._places[buffer] for buffer in op.inputs]
        self._values(op, catalogue.GATED, inputs, (ACTIVATIONS[op.attrs["activation"]],))

    def _softcap(self, op: Op) -> None:
        self._values(op, catalogue.SOFTCAP, [self._places[op.inputs[0]]], (float(op.attrs["cap"]),))

    def _take_logit_rows(self, op: Op) -> None:
        inputs = (self._places[op.inputs[0]], self.inputs.logit_rows)
        self._values(op, catalogue.TAKE_LOGIT_ROWS, inputs)

    def _values(
        self,
        op: Op,
        kernel: Kernel,
        inputs: list[At] | tuple[At, ...],
        tail: tuple[Argument, ...] = (),
    ) -> None:
        """A kernel with one thread a value."""
        width = op.output.width
        arguments = (*inputs, self._places[op.output], width, stride_of(op.output), *tail)
        self._rowwise(op, kernel, lambda n: launches.value_grid(width, n), arguments)

    def _rowwise(
        self, op: Op, kernel: Kernel, grid: Callable[[int], Grid], arguments: tuple[Argument, ...]
    ) -> None:
        def call(num_rows: int, num_runs: int) -> Call:
            return Call(kernel, grid(num_rows), arguments)

        self._ops.append(PlannedOp(op.kind, op.output.rows, call, (kernel,)))

    # ---- attention -----------------------------------------------------------------------------------------

    def _attention_qkv(self, op: Op) -> None:
        qkv, out = op.inputs[0], op.output
        self._ops.extend(
            self._attention.ops(op, self._places[qkv], stride_of(qkv), self._places[out])
        )
