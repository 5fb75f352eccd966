"""A small model file with seeded random weights, for tests that need a whole model but no real one.

Owns the file's contents: any supported architecture, any format the `gguf` package can write, and a
byte-level BPE vocabulary with ChatML tokens. Its text means nothing; its logits are neither flat nor
one-hot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import gguf
import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

MERGES = (
    "Ġ t", "h e", "Ġt he", "i n", "Ġ a", "e r", "o n", "Ġ s", "r e", "a n", "Ġ w", "o u", "i s",
    "e n", "Ġ c", "o r", "a t", "i t", "Ġ m", "l l",
)  # fmt: skip
CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class TinyShape:
    num_layers: int = 2
    width: int = 64
    ffn_width: int = 128
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 32
    context_len: int = 512
    window: int = 16  # gemma3
    tied: bool = True


def write_tiny_gguf(
    path: Path,
    arch: str = "llama",
    quant: str = "F16",
    shape: TinyShape | None = None,
    seed: int = 0,
    extra: dict[str, str | int | float] | None = None,
) -> Path:
    """Write the file and return its path. `extra` adds metadata keys, e.g. "rope.scaling.type"."""
    shape = TinyShape() if shape is None else shape
    writer = gguf.GGUFWriter(path, arch)
    _write_config(writer, arch, shape, extra or {})
    _write_vocabulary(writer)
    rng = np.random.default_rng(seed)
    for name, tensor_shape in tensor_shapes(arch, shape, len(vocabulary())).items():
        _write_tensor(writer, name, _random_values(rng, name, tensor_shape), quant)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def vocabulary() -> list[str]:
    """Ids 0-255 are the bytes, then one token a merge, then the control tokens."""
    merged = [merge.replace(" ", "") for merge in MERGES]
    return [*byte_characters(), *merged, *CONTROL_TOKENS]


def byte_characters() -> list[str]:
    """The character that stands for each byte in byte-level BPE: itself where it is printable."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = (chr(256 + i) for i in range(256))
    return [chr(byte) if byte in printable else next(others) for byte in range(256)]


def tensor_shapes(arch: str, shape: TinyShape, vocab_size: int) -> dict[str, tuple[int, ...]]:
    """Every tensor of the file, matrices as (rows, k)."""
    width, ffn = shape.width, shape.ffn_width
    q_width, kv_width = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    layer: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (width,),
        "attn_q.weight": (q_width, width),
        "attn_k.weight": (kv_width, width),
        "attn_v.weight": (kv_width, width),
        "attn_output.weight": (width, q_width),
        "ffn_norm.weight": (width,),
        "ffn_gate.weight": (ffn, width),
        "ffn_up.weight": (ffn, width),
        "ffn_down.weight": (width, ffn),
    }
    if arch == "qwen2":
        layer |= {"attn_q.bias": (q_width,), "attn_k.bias": (kv_width,), "attn_v.bias": (kv_width,)}
    if arch in ("qwen3", "gemma3"):
        layer |= {
            "attn_q_norm.weight": (shape.head_dim,),
            "attn_k_norm.weight": (shape.head_dim,),
        }
    if arch == "gemma3":
        layer |= {"post_attention_norm.weight": (width,), "post_ffw_norm.weight": (width,)}
    tensors: dict[str, tuple[int, ...]] = {"token_embd.weight": (vocab_size, width)}
    for index in range(shape.num_layers):
        tensors |= {f"blk.{index}.{name}": size for name, size in layer.items()}
    tensors["output_norm.weight"] = (width,)
    if not shape.tied:
        tensors["output.weight"] = (vocab_size, width)
    return tensors


def _write_config(
    writer: gguf.GGUFWriter,
    arch: str,
    shape: TinyShape,
    extra: dict[str, str | int | float],
) -> None:
    writer.add_name(f"tiny-{arch}")
    writer.add_block_count(shape.num_layers)
    writer.add_context_length(shape.context_len)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.ffn_width)
    writer.add_head_count(shape.num_heads)
    writer.add_head_count_kv(shape.num_kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    if arch == "gemma3":
        writer.add_sliding_window(shape.window)
    for key, value in extra.items():
        if isinstance(value, str):
            writer.add_string(f"{arch}.{key}", value)
        elif isinstance(value, int):
            writer.add_uint32(f"{arch}.{key}", value)
        else:
            writer.add_float32(f"{arch}.{key}", value)


def _write_vocabulary(writer: gguf.GGUFWriter) -> None:
    tokens = vocabulary()
    num_control = len(CONTROL_TOKENS)
    types = [gguf.TokenType.NORMAL] * (len(tokens) - num_control)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([*types, *[gguf.TokenType.CONTROL] * num_control])
    writer.add_token_merges(list(MERGES))
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_bos_token_id(tokens.index("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def _random_values(
    rng: np.random.Generator, name: str, shape: tuple[int, ...]
) -> npt.NDArray[np.float32]:
    if name.endswith("norm.weight"):
        values = 1.0 + 0.2 * rng.standard_normal(shape)
    elif name == "token_embd.weight":
        # Small enough that a tied output does not just repeat the input, also where gemma3 scales it.
        values = 0.25 * rng.standard_normal(shape)
    else:
        values = rng.standard_normal(shape) / np.sqrt(shape[-1])
    return values.astype(np.float32)


def _write_tensor(
    writer: gguf.GGUFWriter, name: str, values: npt.NDArray[np.float32], quant: str
) -> None:
    if values.ndim == 1:
        writer.add_tensor(name, values)
        return
    kind = gguf.GGMLQuantizationType[quant]
    writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
