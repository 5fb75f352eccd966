"""The qwen3 architecture (dense Qwen3): llama with every query and key head normalised.

Owns one recorded page and never computes. Source: Qwen team 2025, arXiv:2505.09388; tensor names as
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
        q = b.head_rms_norm(q, blk.vector("attn_q_norm", cfg.head_dim), cfg.rms_eps)
        k = b.head_rms_norm(k, blk.vector("attn_k_norm", cfg.head_dim), cfg.rms_eps)
        q, k = b.rope(q, cfg.head_dim, rope), b.rope(k, cfg.head_dim, rope)
        a = b.attention(q, k, v, head_dim=cfg.head_dim)
        x = b.add(b.matmul(a, blk.matrix("attn_output", cfg.width, cfg.q_width)), x)
        a = b.rms_norm(x, blk.vector("ffn_norm", cfg.width), cfg.rms_eps)
        gate = b.matmul(a, blk.matrix("ffn_gate", cfg.ffn_width, cfg.width))
        up = b.matmul(a, blk.matrix("ffn_up", cfg.ffn_width, cfg.width))
        hidden = b.gated(gate, up, "silu")
        x = b.add(b.matmul(hidden, blk.matrix("ffn_down", cfg.width, cfg.ffn_width)), x)
    x = b.rms_norm(b.take_logit_rows(x), w.vector("output_norm", cfg.width), cfg.rms_eps)
    return b.matmul(x, w.output(table))
