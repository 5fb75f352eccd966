"""A fused program -> machine ops over areas of step memory.

Owns which kernels an op becomes and what their op records say; places nothing and compiles nothing.
Attention, which becomes several kernels, has its own module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.cpu.attention_lowering import AttentionLowering
from accel.cpu.forms import FUSES_QUANTISE, MATMULS, OPS, Form, choose_forms, num_readers
from accel.cpu.memory import LINE_BYTES, round_up
from accel.cpu.records import Access, Area, MachineOp
from accel.errors import UnsupportedProgram
from kernels.cpu.best import FOUND_BYTES
from kernels.cpu.layout import ADD, GATED_GELU, GATED_SILU, STORE
from kernels.cpu.matmul import matmul_scratch_bytes
from kernels.specs.program import Rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accel.backend import Limits
    from accel.cpu.records import Column
    from accel.cpu.weights import PackedWeights
    from kernels.cpu.pack import PackedPart
    from kernels.specs.program import Buffer, Op, Program

ACTIVATIONS = {"silu": GATED_SILU, "gelu": GATED_GELU}


@dataclass(frozen=True, eq=False)
class Lowered:
    """`kv_areas[i]` stands for the pages of KV layer i, `logits` and `best` for the results."""

    ops: tuple[MachineOp, ...]
    kv_areas: tuple[Area, ...]
    logits: Area
    best: Area
    scratch_bytes: int


def check(program: Program, limits: Limits) -> None:
    """Raises: UnsupportedProgram for what no kernel takes (weights are checked when they are packed)."""
    for op in program.ops:
        if op.kind not in OPS:
            raise UnsupportedProgram("cpu", f"the op {op.kind}")
        if op.attrs.get("activation", "silu") not in ACTIVATIONS:
            raise UnsupportedProgram("cpu", f"the activation {op.attrs['activation']}")
        if "rms_norm" in op.kind and op.output.width % 16:
            raise UnsupportedProgram("cpu", f"{op.kind} of a width that is no multiple of 16")
    AttentionLowering.check(program, limits)


def lower(program: Program, limits: Limits, weights: PackedWeights) -> Lowered:
    """Machine ops in program order, the attention plans first."""
    return _Lowering(program, limits, weights).run()


class _Lowering:
    def __init__(self, program: Program, limits: Limits, weights: PackedWeights) -> None:
        self._program, self._weights = program, weights
        self._num_threads = limits.num_threads
        self._forms: dict[Buffer, Form] = choose_forms(program, weights)
        self._unread = dict(num_readers(program))
        self._attention = AttentionLowering(program, limits, weights)
        self._ops: list[MachineOp] = []
        widest = max(op.output.width for op in program.ops)
        self._scratch = [
            matmul_scratch_bytes(limits.max_rows, round_up(_max_k(program), 32)),
            4 * widest,
        ]

    def run(self) -> Lowered:
        for op in self._program.ops:
            for buffer in op.inputs:
                self._unread[buffer] -= 1
            getattr(self, f"_{op.kind}")(op)
            self._quantise_separately(op)
        logits = self._forms[self._program.logits].floats
        assert logits is not None
        best = self._find_best(logits)
        self._scratch.append(self._attention.scratch_bytes)
        return Lowered(
            (*self._attention.plans, *self._ops),
            self._attention.kv_areas,
            logits,
            best,
            round_up(sum(self._scratch), LINE_BYTES),
        )

    # ---- row ops ---------------------------------------------------------------------------------

    def _embed(self, op: Op) -> None:
        parts = self._weights.parts(op)
        if len(parts) > 1:
            raise UnsupportedProgram("cpu", f"the table {op.weights[0].name} in mixed formats")
        columns = {**parts[0].columns(), "SCALE": float(op.attrs["scale"])}
        self._row_op(parts[0].embed_kernel, op, columns, width=parts[0].k)

    def _rms_norm(self, op: Op) -> None:
        gain = self._weights.vector(op.vectors["gain"])
        self._row_op("rms_norm", op, {"W": gain, "EPS": float(op.attrs["eps"])})

    _rms_norm_add = _rms_norm

    def _take_rms_norm(self, op: Op) -> None:
        gain = self._weights.vector(op.vectors["gain"])
        self._row_op("rms_norm", op, {"W": gain, "EPS": float(op.attrs["eps"]), "GATHER": 1})

    def _take_logit_rows(self, op: Op) -> None:
        self._row_op("copy_rows", op, {"GATHER": 1})

    def _add(self, op: Op) -> None:
        self._row_op("add", op, {})

    def _add_bias(self, op: Op) -> None:
        self._row_op("add_bias", op, {"W": self._weights.vector(op.vectors["bias"])})

    def _gated(self, op: Op) -> None:
        self._row_op("gate", op, {"MODE": ACTIVATIONS[op.attrs["activation"]]})

    def _softcap(self, op: Op) -> None:
        self._row_op("softcap", op, {"SCALE": float(op.attrs["cap"])})

    def _row_op(
        self, kernel: str, op: Op, columns: Mapping[str, Column], width: int | None = None
    ) -> None:
        """A kernel over whole rows of one or two float inputs."""
        out = self._output(op)
        inputs = [self._floats(buffer) for buffer in op.inputs]
        named = dict(zip(("IN", "ADDEND"), inputs, strict=False))
        every: dict[str, Column] = {"K": round_up(width or op.output.width, 16), **columns}
        for name, area in {**named, "OUT": out}.items():
            every |= {
                name: Access.whole(area),
                f"{name}_STRIDE": area.row_bytes,
                f"{name}_SHARED": int(not area.private),
            }
        every["QUANTISE"] = int(self._forms[op.output].floats is None)
        reads = tuple(Access.whole(area) for area in inputs)
        self._ops.append(
            MachineOp(kernel, op.output.rows, reads, (Access.whole(out),), every, op.kind)
        )

    def _quantise_separately(self, op: Op) -> None:
        """Quantised rows that the op itself did not make."""
        form = self._forms[op.output]
        if form.floats is None or form.quantised is None:
            return
        columns: dict[str, Column] = {
            "K": op.output.width,
            "IN": Access.whole(form.floats),
            "IN_STRIDE": form.floats.row_bytes,
            "IN_SHARED": int(not form.floats.private),
            "OUT": Access.whole(form.quantised),
            "OUT_STRIDE": form.quantised.row_bytes,
        }
        reads, writes = (Access.whole(form.floats),), (Access.whole(form.quantised),)
        self._ops.append(MachineOp("quantise", op.output.rows, reads, writes, columns, op.kind))

    # ---- matmuls ---------------------------------------------------------------------------------

    def _matmul(self, op: Op) -> None:
        self._product(op, self._weights.parts(op), self._output(op), STORE)

    def _matmul_add(self, op: Op) -> None:
        """Adds into the residual where it lies if nothing else reads it, now or later; else into a copy."""
        x, residual = op.inputs
        area = self._floats(residual)
        if self._unread[residual] or x == residual:
            out = self._output(op)
            columns: dict[str, Column] = {
                "K": round_up(residual.width, 16),
                "IN": Access.whole(area),
                "IN_STRIDE": area.row_bytes,
                "IN_SHARED": 1,
                "OUT": Access.whole(out),
                "OUT_STRIDE": out.row_bytes,
                "OUT_SHARED": 1,
            }
            reads, writes = (Access.whole(area),), (Access.whole(out),)
            self._ops.append(MachineOp("copy_rows", residual.rows, reads, writes, columns, op.kind))
        else:
            self._forms[op.output] = Form(area, self._forms[op.output].quantised)
        self._product(op, self._weights.parts(op), self._output(op), ADD)

    def _matmul_gated(self, op: Op) -> None:
        mode = ACTIVATIONS[op.attrs["activation"]]
        out = self._output(op)
        if self._weights.is_gated_pair(op):
            self._product(op, self._weights.parts(op), out, mode)
            return
        up = Area(f"up.{op.output.index}", out.rows, out.row_bytes)
        for weight, area in zip(op.weights, (out, up), strict=True):
            self._product(op, self._weights.weight(weight), area, STORE)
        columns: dict[str, Column] = {"K": round_up(op.output.width, 16), "MODE": mode}
        for name, area in {"IN": out, "ADDEND": up, "OUT": out}.items():
            columns |= {
                name: Access.whole(area),
                f"{name}_STRIDE": area.row_bytes,
                f"{name}_SHARED": 1,
            }
        reads, writes = (Access.whole(out), Access.whole(up)), (Access.whole(out),)
        self._ops.append(MachineOp("gate", op.output.rows, reads, writes, columns, op.kind))

    def _product(self, op: Op, parts: Sequence[PackedPart], out: Area, mode: int) -> None:
        """One matmul kernel per part, each into its own columns of `out`."""
        form = self._forms[op.inputs[0]]
        for part in parts:
            x = form.quantised if part.format.activations == "q8" else form.floats
            assert x is not None
            num_columns = part.num_columns if mode in (STORE, ADD) else part.num_columns // 2
            written = Access(out, 4 * part.first_column, 4 * (part.first_column + num_columns))
            columns: dict[str, Column] = {
                **part.columns(),
                "MODE": mode,
                "IN": Access.whole(x),
                "IN_STRIDE": x.row_bytes,
                "IN_SHARED": int(not x.private),
                "OUT": written,
                "OUT_STRIDE": out.row_bytes,
            }
            reads = (Access.whole(x), written) if mode == ADD else (Access.whole(x),)
            self._ops.append(
                MachineOp(part.matmul_kernel, op.output.rows, reads, (written,), columns, op.kind)
            )

    # ---- attention -------------------------------------------------------------------------------

    def _attention_qkv(self, op: Op) -> None:
        assert not self._unread[op.inputs[0]], "queries are rotated in place"
        self._ops.extend(
            self._attention.ops(
                op, self._floats(op.inputs[0]), self._output(op), self._quantises(op)
            )
        )

    # ---- the end ---------------------------------------------------------------------------------

    def _find_best(self, logits: Area) -> Area:
        """The likeliest token of each row, as in kernels.cpu.best."""
        found = Area("found", Rows.LOGITS, FOUND_BYTES * self._num_threads)
        best = Area("best", Rows.LOGITS, FOUND_BYTES)
        columns: dict[str, Column] = {
            "K": self._program.vocab_size,
            "IN": Access.whole(logits),
            "IN_STRIDE": logits.row_bytes,
            "PARTIALS": Access.whole(found),
            "OUT": Access.whole(best),
        }
        writes = Access.whole(found), Access.whole(best)
        self._ops.append(
            MachineOp("find_best", Rows.LOGITS, (Access.whole(logits),), writes, columns, "best")
        )
        return best

    # ---- areas -----------------------------------------------------------------------------------

    def _floats(self, buffer: Buffer) -> Area:
        area = self._forms[buffer].floats
        assert area is not None
        return area

    def _output(self, op: Op) -> Area:
        """Where the op's own kernel writes."""
        form = self._forms[op.output]
        area = form.floats or form.quantised
        assert area is not None
        return area

    def _quantises(self, op: Op) -> bool:
        """Whether the op's own kernel quantises on its way out."""
        assert op.kind in FUSES_QUANTISE
        return self._forms[op.output].floats is None


def _max_k(program: Program) -> int:
    """The longest rows that a matmul reads."""
    return max((op.inputs[0].width for op in program.ops if op.kind in MATMULS), default=0)
