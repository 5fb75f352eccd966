"""The llama architecture (Llama 1-3, SmolLM2, Mistral): one page, recorded once, never computing.

Source: Touvron et al. 2023, arXiv:2302.13971; tensor names as in GGUF files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from inference.model.errors import ModelError

if TYPE_CHECKING:
    from inference.model.builder import Builder
    from inference.model.config import ModelConfig
    from inference.model.weights import Weights
    from kernels.specs.program import Buffer


def forward(b: Builder, cfg: ModelConfig, w: Weights) -> Buffer:
    """Record the model; returns the logits buffer. Raises: ModelError."""
    if cfg.rope.num_dims != cfg.head_dim:
        raise ModelError("llama.rope.dimension_count", f"must be the head's {cfg.head_dim}")
    table = w.matrix("token_embd", cfg.vocab_size, cfg.width)
    rope = cfg.rope_table(w)
    x = b.embed(table)
    for layer in range(cfg.num_layers):
        blk = w.layer(layer)
        a = b.rms_norm(x, blk.vector("attn_norm", cfg.width), cfg.rms_eps)
        # GGUF's llama files pair neighbouring dimensions for rope; `pairs` reorders rows to half-split.
        q = b.matmul(a, blk.matrix("attn_q", cfg.q_width, cfg.width, pairs=cfg.head_dim))
        k = b.matmul(a, blk.matrix("attn_k", cfg.kv_width, cfg.width, pairs=cfg.head_dim))
        v = b.matmul(a, blk.matrix("attn_v", cfg.kv_width, cfg.width))
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
