"""In which form every buffer of a program is kept: as floats, quantised, or both, and for whom.

Owns the choice from who reads a buffer; makes no op. Quantised matmuls read int8 rows, everything
else float32 rows. Rows that only row ops and matmuls read can be private: each thread of a narrow
step then makes its own copy instead of waiting for another's.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from accel.cpu.memory import LINE_BYTES, round_up
from accel.cpu.records import Area
from kernels.cpu.layout import ACT_BLOCK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel.cpu.weights import PackedWeights
    from kernels.specs.program import Buffer, Op, Program


class Use(Enum):
    """How an op reads an input."""

    ROWS = auto()  # a row op: whole rows
    FLOAT_MATMUL = auto()
    QUANTISED_MATMUL = auto()
    SHARED = auto()  # where it lies in one piece: residuals of matmuls, attention, the logits


ROW_OPS = frozenset(
    {
        "embed",
        "rms_norm",
        "rms_norm_add",
        "take_rms_norm",
        "take_logit_rows",
        "add",
        "add_bias",
        "gated",
        "softcap",
    }
)
MATMULS = frozenset({"matmul", "matmul_add", "matmul_gated"})
OPS = ROW_OPS | MATMULS | {"attention_qkv"}
# Row-wise at their end, so their output may be private.
_ROWWISE_OUTPUT = ROW_OPS | {"attention_qkv"}


@dataclass(frozen=True)
class Form:
    floats: Area | None
    quantised: Area | None


def quantised_row_bytes(width: int) -> int:
    return round_up(width // 32 * ACT_BLOCK, LINE_BYTES)


def choose_forms(program: Program, weights: PackedWeights) -> dict[Buffer, Form]:
    """The areas of every buffer."""
    uses = _uses(program, weights)
    return {op.output: _form(op, uses[op.output]) for op in program.ops}


def num_readers(program: Program) -> Mapping[Buffer, int]:
    counts: dict[Buffer, int] = defaultdict(int)
    for op in program.ops:
        for buffer in op.inputs:
            counts[buffer] += 1
    counts[program.logits] += 1
    return counts


def _uses(program: Program, weights: PackedWeights) -> Mapping[Buffer, set[Use]]:
    uses: dict[Buffer, set[Use]] = defaultdict(set)
    for op in program.ops:
        if op.kind in MATMULS:
            uses[op.inputs[0]] |= {
                Use.QUANTISED_MATMUL if part.format.activations == "q8" else Use.FLOAT_MATMUL
                for part in weights.parts(op)
            }
        for buffer in op.inputs[1:] if op.kind in MATMULS else op.inputs:
            uses[buffer].add(Use.ROWS if op.kind in ROW_OPS else Use.SHARED)
    uses[program.logits].add(Use.SHARED)
    return uses


def _form(op: Op, uses: set[Use]) -> Form:
    buffer = op.output
    name = f"{op.kind}.{buffer.index}"
    quantised = None
    if Use.QUANTISED_MATMUL in uses:
        quantised = Area(f"{name}.q8", buffer.rows, quantised_row_bytes(buffer.width), private=True)
    fused_quantise = op.kind in FUSES_QUANTISE and uses == {Use.QUANTISED_MATMUL}
    if fused_quantise:
        return Form(None, quantised)
    private = op.kind in _ROWWISE_OUTPUT and Use.SHARED not in uses
    row_bytes = round_up(4 * buffer.width, LINE_BYTES)
    return Form(Area(name, buffer.rows, row_bytes, private), quantised)


# Ops whose kernels can quantise on their way out, when nobody wants the floats.
FUSES_QUANTISE = frozenset({"rms_norm", "rms_norm_add", "take_rms_norm", "attention_qkv"})
