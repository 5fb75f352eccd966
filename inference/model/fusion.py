"""Rewrites of a recorded program into fewer, larger ops, shared by all backends.

Owns the patterns; computes nothing and knows no architecture. An op is absorbed only where nobody
else reads its buffer, so what is left of a program means what it meant before.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kernels.specs.program import Buffer, Op
from kernels.specs.tensor import Vector, Weight

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernels.specs.program import Program


def fuse(program: Program) -> Program:
    """The same model in fused ops (`fused` in kernels.specs.ops). Ops without a partner stay."""
    for rule in (_attention_qkv, _matmul_gated, _matmul_add, _rms_norm_add, _take_rms_norm):
        program = _apply(rule, program)
    return program


@dataclass(frozen=True, eq=False)
class _Match:
    """`ops` replace the root and everything in `absorbed`, at the root's place."""

    absorbed: tuple[Op, ...]
    ops: tuple[Op, ...]


class _Graph:
    """Who makes each buffer of a program, and how many read it."""

    def __init__(self, program: Program) -> None:
        self._producers = {op.output.index: op for op in program.ops}
        self._num_readers = Counter(buffer.index for op in program.ops for buffer in op.inputs)
        self._num_readers[program.logits.index] += 1
        self._next_index = max(self._producers, default=-1) + 1

    def absorbable(self, buffer: Buffer, kind: str) -> Op | None:
        """The op of `kind` that makes the buffer, if its one reader may take it over."""
        op = self._producers[buffer.index]
        return op if op.kind == kind and self._num_readers[buffer.index] == 1 else None

    def new_buffer(self, like: Buffer, width: int) -> Buffer:
        self._next_index += 1
        return replace(like, index=self._next_index - 1, width=width)


def _apply(rule: Callable[[_Graph, Op], _Match | None], program: Program) -> Program:
    """Every match of one rule; a rule's matches never share ops, since each absorbs buffers read once."""
    graph = _Graph(program)
    matches = {op: match for op in program.ops if (match := rule(graph, op)) is not None}
    absorbed = {op for match in matches.values() for op in match.absorbed}
    ops: list[Op] = []
    for op in program.ops:
        if op in matches:
            ops.extend(matches[op].ops)
        elif op not in absorbed:
            ops.append(op)
    return replace(program, ops=tuple(ops))


@dataclass(frozen=True, eq=False)
class _Projection:
    """What led to one input of attention: a matmul and the ops after it, each at most once."""

    matmul: Op
    bias: Op | None
    norm: Op | None
    rope: Op | None

    @property
    def ops(self) -> tuple[Op, ...]:
        return tuple(op for op in (self.matmul, self.bias, self.norm, self.rope) if op is not None)


def _projection(graph: _Graph, buffer: Buffer) -> _Projection | None:
    steps: dict[str, Op | None] = {}
    for kind in ("rope", "head_rms_norm", "add_bias"):
        op = steps[kind] = graph.absorbable(buffer, kind)
        buffer = buffer if op is None else op.inputs[0]
    matmul = graph.absorbable(buffer, "matmul")
    if matmul is None:
        return None
    return _Projection(matmul, steps["add_bias"], steps["head_rms_norm"], steps["rope"])


def _attention_qkv(graph: _Graph, op: Op) -> _Match | None:
    """q, k and v of one input: one stacked matmul, then one op for all that follows."""
    if op.kind != "attention":
        return None
    q, k, v = (_projection(graph, buffer) for buffer in op.inputs)
    if q is None or k is None or v is None or q.rope is None or not _fits(op, q, k, v):
        return None
    weights = [part.matmul.weights[0] for part in (q, k, v)]
    stacked = Weight(
        "+".join(weight.name for weight in weights),
        tuple(part for weight in weights for part in weight.parts),
    )
    source = q.matmul.inputs[0]
    buffer = graph.new_buffer(source, stacked.num_rows)
    vectors = {}
    if q.bias and k.bias and v.bias:
        vectors["bias"] = _stacked([part.vectors["bias"] for part in (q.bias, k.bias, v.bias)])
    if q.norm and k.norm:
        vectors |= {"q_gain": q.norm.vectors["gain"], "k_gain": k.norm.vectors["gain"]}
    attrs = {
        **op.attrs,
        "rope": q.rope.attrs["rope"],
        "eps": q.norm.attrs["eps"] if q.norm else 0.0,
    }
    return _Match(
        (*q.ops, *k.ops, *v.ops),
        (
            Op("matmul", (source,), buffer, (stacked,)),
            Op("attention_qkv", (buffer,), op.output, (), vectors, attrs),
        ),
    )


def _fits(op: Op, q: _Projection, k: _Projection, v: _Projection) -> bool:
    """Whether q, k and v were treated alike, as the fused op treats them."""
    if q.rope is None or k.rope is None or v.rope or v.norm:
        return False
    if len({part.matmul.inputs[0] for part in (q, k, v)}) > 1:
        return False
    if len({part.bias is None for part in (q, k, v)}) > 1 or (q.norm is None) != (k.norm is None):
        return False
    if q.norm and k.norm and q.norm.attrs != k.norm.attrs:
        return False
    head_dims = {part.attrs["head_dim"] for part in (q.norm, k.norm, q.rope, k.rope) if part}
    return head_dims == {op.attrs["head_dim"]} and q.rope.attrs["rope"] is k.rope.attrs["rope"]


def _stacked(vectors: list[Vector]) -> Vector:
    name = "+".join(vector.name for vector in vectors)
    return Vector(name, np.concatenate([vector.values for vector in vectors]))


def _matmul_gated(graph: _Graph, op: Op) -> _Match | None:
    if op.kind != "gated":
        return None
    gate, up = (graph.absorbable(buffer, "matmul") for buffer in op.inputs)
    if gate is None or up is None or gate is up or gate.inputs != up.inputs:
        return None
    fused = Op("matmul_gated", gate.inputs, op.output, gate.weights + up.weights, {}, op.attrs)
    return _Match((gate, up), (fused,))


def _matmul_add(graph: _Graph, op: Op) -> _Match | None:
    return _ending_in_add(graph, op, "matmul", "matmul_add")


def _rms_norm_add(graph: _Graph, op: Op) -> _Match | None:
    return _ending_in_add(graph, op, "rms_norm", "rms_norm_add")


def _ending_in_add(graph: _Graph, op: Op, kind: str, fused_kind: str) -> _Match | None:
    """add(op(x), residual) or add(residual, op(x)), the residual becoming the second input."""
    if op.kind != "add":
        return None
    for mine, residual in (op.inputs, op.inputs[::-1]):
        inner = graph.absorbable(mine, kind)
        if inner is not None:
            inputs = (inner.inputs[0], residual)
            fused = Op(fused_kind, inputs, op.output, inner.weights, inner.vectors, inner.attrs)
            return _Match((inner,), (fused,))
    return None


def _take_rms_norm(graph: _Graph, op: Op) -> _Match | None:
    if op.kind != "rms_norm":
        return None
    take = graph.absorbable(op.inputs[0], "take_logit_rows")
    if take is None:
        return None
    fused = Op("take_rms_norm", take.inputs, op.output, (), op.vectors, op.attrs)
    return _Match((take,), (fused,))
