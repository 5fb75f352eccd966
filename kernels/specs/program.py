"""A program: a model's forward pass as a flat list of ops over named buffers.

Owns the frozen values that `inference.model` records and backends compile. Every op makes a new
buffer (single assignment); backends decide what shares memory. Knows no architecture and no backend.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kernels.specs.tensor import Vector, Weight


class Rows(Enum):
    """How many rows a buffer has in a step."""

    STEP = "step"  # one per row of the step
    LOGITS = "logits"  # one per row that wants logits


@dataclass(frozen=True)
class Buffer:
    """float32 values of `width` per row. `index` makes it unique in its program."""

    index: int
    width: int
    rows: Rows = Rows.STEP


@dataclass(frozen=True, eq=False)
class Op:
    """One op: `kind` is a key of `kernels.specs.ops.OPS`, which says what each field must hold."""

    kind: str
    inputs: tuple[Buffer, ...]
    output: Buffer
    weights: tuple[Weight, ...] = ()
    vectors: Mapping[str, Vector] = field(default_factory=dict)
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class KVShape:
    """What one layer keeps per position: keys and values of num_kv_heads * head_dim each."""

    num_kv_heads: int
    head_dim: int


@dataclass(frozen=True, eq=False)
class Program:
    """The recorded model. `kv_layers[i]` is the KV shape of the layer that attention ops call `layer` i."""

    ops: tuple[Op, ...]
    logits: Buffer
    kv_layers: tuple[KVShape, ...]
    vocab_size: int
