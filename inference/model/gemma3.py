"""The gemma3 architecture (text): norms before and after, sliding windows with their own rotation.

Owns one recorded page and never computes. Source: Gemma team 2025, arXiv:2503.19786; tensor names as
in GGUF files, whose norm gains include Gemma's 1 +.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inference.model.builder import Builder
    from inference.model.config import ModelConfig
    from inference.model.weights import Weights
    from kernels.specs.program import Buffer

LAYERS_OF_27B = 62


def forward(b: Builder, cfg: ModelConfig, w: Weights) -> Buffer:
    """Record the model; returns the logits buffer."""
    table = w.matrix("token_embd", cfg.vocab_size, cfg.width)
    global_rope, local_rope = cfg.rope_table(w), cfg.local_rope_table()
    x = b.embed(table, scale=math.sqrt(cfg.width))
    for layer in range(cfg.num_layers):
        blk = w.layer(layer)
        window_len = cfg.window_len(layer)
        rope = local_rope if window_len else global_rope
        a = b.rms_norm(x, blk.vector("attn_norm", cfg.width), cfg.rms_eps)
        q = b.matmul(a, blk.matrix("attn_q", cfg.q_width, cfg.width))
        k = b.matmul(a, blk.matrix("attn_k", cfg.kv_width, cfg.width))
        v = b.matmul(a, blk.matrix("attn_v", cfg.kv_width, cfg.width))
        q = b.head_rms_norm(q, blk.vector("attn_q_norm", cfg.head_dim), cfg.rms_eps)
        k = b.head_rms_norm(k, blk.vector("attn_k_norm", cfg.head_dim), cfg.rms_eps)
        q, k = b.rope(q, cfg.head_dim, rope), b.rope(k, cfg.head_dim, rope)
        scale = attention_scale(cfg)
        a = b.attention(q, k, v, head_dim=cfg.head_dim, scale=scale, window=window_len)
        a = b.matmul(a, blk.matrix("attn_output", cfg.width, cfg.q_width))
        x = b.add(b.rms_norm(a, blk.vector("post_attention_norm", cfg.width), cfg.rms_eps), x)
        a = b.rms_norm(x, blk.vector("ffn_norm", cfg.width), cfg.rms_eps)
        gate = b.matmul(a, blk.matrix("ffn_gate", cfg.ffn_width, cfg.width))
        up = b.matmul(a, blk.matrix("ffn_up", cfg.ffn_width, cfg.width))
        hidden = b.gated(gate, up, "gelu")
        a = b.matmul(hidden, blk.matrix("ffn_down", cfg.width, cfg.ffn_width))
        x = b.add(b.rms_norm(a, blk.vector("post_ffw_norm", cfg.width), cfg.rms_eps), x)
    x = b.rms_norm(b.take_logit_rows(x), w.vector("output_norm", cfg.width), cfg.rms_eps)
    logits = b.matmul(x, w.output(table))
    return b.softcap(logits, cfg.softcap) if cfg.softcap else logits


def attention_scale(cfg: ModelConfig) -> float:
    """1 / sqrt(query_pre_attn_scalar), which GGUF leaves out: it is head_dim in all sizes but 27B."""
    is_27b = cfg.num_layers == LAYERS_OF_27B
    return 1.0 / math.sqrt(cfg.width / cfg.num_heads if is_27b else cfg.head_dim)
