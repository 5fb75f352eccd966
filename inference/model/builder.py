"""The recorder that an architecture's `forward` writes on.

Owns shape checks and the order of ops; computes nothing and knows no architecture. The result is a
`kernels.specs.program.Program` of unfused ops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inference.model.errors import ModelError
from kernels.specs.ops import OPS
from kernels.specs.program import Buffer, KVShape, Op, Program, Rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kernels.specs.tensor import RopeTable, Vector, Weight


class Builder:
    """Records ops; each method returns the buffer its op makes."""

    def __init__(self) -> None:
        self._ops: list[Op] = []
        self._kv_layers: list[KVShape] = []
        self._num_buffers = 0

    def embed(self, table: Weight, scale: float = 1.0) -> Buffer:
        return self._op("embed", (), table.k, weights=(table,), attrs={"scale": scale})

    def rms_norm(self, x: Buffer, gain: Vector, eps: float) -> Buffer:
        self._check(gain.name, len(gain.values), x.width)
        return self._op("rms_norm", (x,), x.width, vectors={"gain": gain}, attrs={"eps": eps})

    def matmul(self, x: Buffer, weight: Weight) -> Buffer:
        self._check(weight.name, weight.k, x.width)
        return self._op("matmul", (x,), weight.num_rows, weights=(weight,))

    def add_bias(self, x: Buffer, bias: Vector) -> Buffer:
        self._check(bias.name, len(bias.values), x.width)
        return self._op("add_bias", (x,), x.width, vectors={"bias": bias})

    def add(self, x: Buffer, y: Buffer) -> Buffer:
        self._check("add", y.width, x.width)
        return self._op("add", (x, y), x.width)

    def head_rms_norm(self, x: Buffer, gain: Vector, eps: float) -> Buffer:
        head_dim = len(gain.values)
        self._check(gain.name, x.width % head_dim, 0)
        return self._op(
            "head_rms_norm",
            (x,),
            x.width,
            vectors={"gain": gain},
            attrs={"head_dim": head_dim, "eps": eps},
        )

    def rope(self, x: Buffer, head_dim: int, rope: RopeTable) -> Buffer:
        return self._op("rope", (x,), x.width, attrs={"head_dim": head_dim, "rope": rope})

    def attention(
        self,
        q: Buffer,
        k: Buffer,
        v: Buffer,
        *,
        head_dim: int,
        scale: float | None = None,
        window: int = 0,
    ) -> Buffer:
        """Each call is a layer with KV pages of its own. scale: 1 / sqrt(head_dim) unless given."""
        self._check("attention keys and values", k.width, v.width)
        num_kv_heads, num_heads = k.width // head_dim, q.width // head_dim
        self._check("attention heads", num_heads % num_kv_heads, 0)
        self._kv_layers.append(KVShape(num_kv_heads, head_dim))
        attrs = {
            "layer": len(self._kv_layers) - 1,
            "num_heads": num_heads,
            "num_kv_heads": num_kv_heads,
            "head_dim": head_dim,
            "scale": head_dim**-0.5 if scale is None else scale,
            "window": window,
        }
        return self._op("attention", (q, k, v), q.width, attrs=attrs)

    def gated(self, gate: Buffer, up: Buffer, activation: str) -> Buffer:
        self._check("gated", up.width, gate.width)
        return self._op("gated", (gate, up), gate.width, attrs={"activation": activation})

    def take_logit_rows(self, x: Buffer) -> Buffer:
        return self._op("take_logit_rows", (x,), x.width, rows=Rows.LOGITS)

    def softcap(self, x: Buffer, cap: float) -> Buffer:
        return self._op("softcap", (x,), x.width, attrs={"cap": cap})

    def finish(self, logits: Buffer) -> Program:
        return Program(tuple(self._ops), logits, tuple(self._kv_layers), logits.width)

    def _op(
        self,
        kind: str,
        inputs: tuple[Buffer, ...],
        width: int,
        *,
        rows: Rows | None = None,
        weights: tuple[Weight, ...] = (),
        vectors: Mapping[str, Vector] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> Buffer:
        assert kind in OPS
        if rows is None:
            rows = inputs[0].rows if inputs else Rows.STEP
        output = Buffer(self._num_buffers, width, rows)
        self._num_buffers += 1
        self._ops.append(Op(kind, inputs, output, weights, vectors or {}, attrs or {}))
        return output

    @staticmethod
    def _check(what: str, got: int, wanted: int) -> None:
        if got != wanted:
            raise ModelError(what, f"has size {got} where the model needs {wanted}")
