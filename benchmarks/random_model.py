"""A model of a billion parameters with random weights, so that weights exceed every cache.

Owns the file: llama architecture, one quant format throughout, a vocabulary that means nothing. Its
speed is that of a real model of its shape; its text is noise.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

NUM_LAYERS, WIDTH, FFN, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 16, 2048, 8192, 32, 8, 64, 32_768
BLOCK = {"Q8_0": (32, 34), "Q4_K": (256, 144)}  # values, bytes
SCALE = 0.002


def write(path: Path, quant: str) -> Path:
    """1.04 G parameters; matrices in `quant`, norms in F32."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(f"random-1b-{quant}")
    writer.add_block_count(NUM_LAYERS)
    writer.add_context_length(8192)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_vocab_size(VOCAB)
    _add_vocabulary(writer)
    rng = np.random.default_rng(0)
    kind = gguf.GGMLQuantizationType[quant]
    for name, (rows, k) in _matrices().items():
        writer.add_tensor(name, _random_blocks(rng, quant, rows, k), raw_dtype=kind)
    for name in _norms():
        writer.add_tensor(name, np.ones(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _matrices() -> dict[str, tuple[int, int]]:
    found = {"token_embd.weight": (VOCAB, WIDTH)}
    for i in range(NUM_LAYERS):
        found |= {
            f"blk.{i}.attn_q.weight": (HEADS * HEAD_DIM, WIDTH),
            f"blk.{i}.attn_k.weight": (KV_HEADS * HEAD_DIM, WIDTH),
            f"blk.{i}.attn_v.weight": (KV_HEADS * HEAD_DIM, WIDTH),
            f"blk.{i}.attn_output.weight": (WIDTH, HEADS * HEAD_DIM),
            f"blk.{i}.ffn_gate.weight": (FFN, WIDTH),
            f"blk.{i}.ffn_up.weight": (FFN, WIDTH),
            f"blk.{i}.ffn_down.weight": (WIDTH, FFN),
        }
    return found


def _norms() -> list[str]:
    layers = [
        f"blk.{i}.{part}.weight" for i in range(NUM_LAYERS) for part in ("attn_norm", "ffn_norm")
    ]
    return [*layers, "output_norm.weight"]


def _random_blocks(
    rng: np.random.Generator, quant: str, rows: int, k: int
) -> npt.NDArray[np.uint8]:
    """Random quants under one small scale: finite, and of the size a trained model's weights have."""
    block_len, block_bytes = BLOCK[quant]
    blocks = rng.integers(0, 256, (rows * k // block_len, block_bytes), np.uint8)
    scales = 1 if quant == "Q8_0" else 2  # Q4_K: d, dmin
    blocks[:, : 2 * scales] = np.full(scales, SCALE, np.float16).view(np.uint8)
    return blocks.reshape(rows, -1)


def _add_vocabulary(writer: gguf.GGUFWriter) -> None:
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = (chr(256 + i) for i in range(256))
    bytes_ = [chr(b) if b in printable else next(others) for b in range(256)]
    tokens = [*bytes_, "th", *(f"<|unused{i}|>" for i in range(VOCAB - 257))]
    normal, unused = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([normal] * 257 + [unused] * (VOCAB - 257))
    writer.add_token_merges(["t h"])
    writer.add_eos_token_id(VOCAB - 1)
    writer.add_bos_token_id(VOCAB - 1)
