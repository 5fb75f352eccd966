"""The ops a program may hold: what each computes, its inputs, weights, vectors and attributes.

Owns the table that the recorder, the rewrites, the backends and the docs agree on. Row inputs that
every step brings (token id, position, slot, which rows want logits) are implicit.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OpSpec:
    """`num_inputs` lists the allowed numbers of inputs; `formula` is the definition, row by row."""

    num_inputs: tuple[int, ...]
    num_weights: int
    vectors: tuple[str, ...]
    attrs: tuple[str, ...]
    formula: str
    fused: bool = False


OPS: dict[str, OpSpec] = {
    # ---- what an architecture records --------------------------------------------------------
    "embed": OpSpec((0,), 1, (), ("scale",), "y = scale * W[token]"),
    "rms_norm": OpSpec((1,), 0, ("gain",), ("eps",), "y = x / sqrt(mean(x^2) + eps) * gain"),
    "matmul": OpSpec((1,), 1, (), (), "y = W x"),
    "add_bias": OpSpec((1,), 0, ("bias",), (), "y = x + bias"),
    "add": OpSpec((2,), 0, (), (), "y = x0 + x1"),
    "head_rms_norm": OpSpec(
        (1,),
        0,
        ("gain",),
        ("head_dim", "eps"),
        "rms_norm of every head_dim values of x by themselves",
    ),
    "rope": OpSpec(
        (1,),
        0,
        (),
        ("head_dim", "rope"),
        "every head of x rotated by its row's position (RopeTable)",
    ),
    "attention": OpSpec(
        (3,),
        0,
        (),
        ("layer", "num_heads", "num_kv_heads", "head_dim", "scale", "window"),
        "append k, v of all rows to the layer's pages, then per row and head:"
        " y = sum_j softmax_j(scale * q . k_j) v_j over positions j <= p, and j > p - window if window > 0",
    ),
    "gated": OpSpec(
        (2,), 0, (), ("activation",), "y = act(x0) * x1; act is silu or gelu (tanh form)"
    ),
    "take_logit_rows": OpSpec((1,), 0, (), (), "y = the rows of x that want logits, in order"),
    "softcap": OpSpec((1,), 0, (), ("cap",), "y = cap * tanh(x / cap)"),
    # ---- what the rewrites make of them --------------------------------------------------------
    "matmul_add": OpSpec((2,), 1, (), (), "y = W x0 + x1", fused=True),
    "matmul_gated": OpSpec((1,), 2, (), ("activation",), "y = act(W0 x) * (W1 x)", fused=True),
    "rms_norm_add": OpSpec((2,), 0, ("gain",), ("eps",), "y = rms_norm(x0) + x1", fused=True),
    "take_rms_norm": OpSpec(
        (1,), 0, ("gain",), ("eps",), "y = rms_norm(take_logit_rows(x))", fused=True
    ),
    "attention_qkv": OpSpec(
        (1,),
        0,
        ("bias", "q_gain", "k_gain"),  # each may be absent
        ("layer", "num_heads", "num_kv_heads", "head_dim", "scale", "window", "rope", "eps"),
        "q, k, v = split(x + bias); q = rope(head_rms_norm(q, q_gain)); k likewise; y = attention(q, k, v)",
        fused=True,
    ),
}
