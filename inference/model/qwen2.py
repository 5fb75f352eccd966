"""The qwen2 architecture (Qwen2, Qwen2.5): llama with biases on queries, keys and values.

Owns one recorded page and never computes. Source: Qwen team 2024, arXiv:2407.10671; tensor names as
in GGUF files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inference.model.builder import Builder
    from inference.model.config import ModelConfig
    from inference.model.weights import Weights
    from kernels.specs.program import Buffer


def forward(b: Builder, cfg: ModelConfig, w: Weights) -> Buffer:
    """Record the model; returns the logits buffer."""
    table = w.matrix("token_embd", cfg.vocab_size, cfg.width)
    rope = cfg.rope_table(w)
    x = b.embed(table)
    for layer in range(cfg.num_layers):
        blk = w.layer(layer)
        a = b.rms_norm(x, blk.vector("attn_norm", cfg.width), cfg.rms_eps)
        q = b.matmul(a, blk.matrix("attn_q", cfg.q_width, cfg.width))
        k = b.matmul(a, blk.matrix("attn_k", cfg.kv_width, cfg.width))
        v = b.matmul(a, blk.matrix("attn_v", cfg.kv_width, cfg.width))
        q = b.rope(b.add_bias(q, blk.bias("attn_q", cfg.q_width)), cfg.head_dim, rope)
        k = b.rope(b.add_bias(k, blk.bias("attn_k", cfg.kv_width)), cfg.head_dim, rope)
        v = b.add_bias(v, blk.bias("attn_v", cfg.kv_width))
        a = b.attention(q, k, v, head_dim=cfg.head_dim)
        x = b.add(b.matmul(a, blk.matrix("attn_output", cfg.width, cfg.q_width)), x)
        a = b.rms_norm(x, blk.vector("ffn_norm", cfg.width), cfg.rms_eps)
        gate = b.matmul(a, blk.matrix("ffn_gate", cfg.ffn_width, cfg.width))
        up = b.matmul(a, blk.matrix("ffn_up", cfg.ffn_width, cfg.width))
        hidden = b.gated(gate, up, "silu")
        x = b.add(b.matmul(hidden, blk.matrix("ffn_down", cfg.width, cfg.ffn_width)), x)
    x = b.rms_norm(b.take_logit_rows(x), w.vector("output_norm", cfg.width), cfg.rms_eps)
    return b.matmul(x, w.output(table))
