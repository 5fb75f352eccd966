"""A model's hyper-parameters, checked.

Owns the reading of a GGUF file's metadata into sizes that fit together; knows nothing about tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inference.model.errors import ModelError
from inference.model.keys import Keys
from inference.model.rope import RopeConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from inference.model.weights import Weights
    from kernels.specs.tensor import RopeTable

GEMMA3_LOCAL_ROPE_BASE = 10000.0
GEMMA3_WINDOW_PERIOD = 6


@dataclass(frozen=True)
class WindowConfig:
    """Sliding windows: every `period`-th layer sees all positions, the others the last `len` ones."""

    len: int
    period: int
    rope_base: float


@dataclass(frozen=True)
class ModelConfig:
    """Sizes are counts of values. `softcap` is 0 where logits are not capped."""

    architecture: str
    num_layers: int
    width: int
    ffn_width: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    context_len: int
    rms_eps: float
    rope: RopeConfig
    window: WindowConfig | None = None
    softcap: float = 0.0

    @staticmethod
    def from_metadata(metadata: Mapping[str, Any]) -> ModelConfig:
        """Raises: ModelError, naming the key."""
        keys = Keys(metadata, architecture_of(metadata))
        if keys.size("expert_count", least=0, most=2**16, default=0):
            raise ModelError(
                keys.name("expert_count"), "says mixture of experts, which is not supported"
            )
        width = keys.size("embedding_length", most=2**17)
        num_heads = keys.size("attention.head_count", most=2**12)
        num_kv_heads = keys.size("attention.head_count_kv", most=num_heads, default=num_heads)
        if num_heads % num_kv_heads:
            raise ModelError(
                keys.name("attention.head_count_kv"),
                f"is {num_kv_heads}, which does not divide the {num_heads} heads",
            )
        head_dim = _head_dim(keys, width, num_heads)
        context_len = keys.size("context_length", most=2**30)
        return ModelConfig(
            architecture=keys.architecture,
            num_layers=keys.size("block_count", most=1024),
            width=width,
            ffn_width=keys.size("feed_forward_length", most=2**20),
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            vocab_size=_vocab_size(keys),
            context_len=context_len,
            rms_eps=keys.real("attention.layer_norm_rms_epsilon", least=1e-12, most=1.0),
            rope=RopeConfig.from_keys(keys, head_dim, context_len),
            window=_window(keys),
            softcap=keys.real("final_logit_softcapping", least=0.0, most=1e6, default=0.0),
        )

    @property
    def q_width(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.num_kv_heads * self.head_dim

    def rope_table(self, w: Weights) -> RopeTable:
        """The rotary table of layers that see all positions."""
        return self.rope.table(w.optional_vector("rope_freqs", self.rope.num_dims // 2))

    def local_rope_table(self) -> RopeTable:
        """The rotary table of layers with a sliding window, which are never scaled."""
        base = self.rope.base if self.window is None else self.window.rope_base
        return RopeConfig(self.rope.num_dims, base).table()

    def window_len(self, layer: int) -> int:
        """How many positions the layer sees, its own included; 0 for all."""
        if self.window is None or layer % self.window.period == self.window.period - 1:
            return 0
        return self.window.len


def architecture_of(metadata: Mapping[str, Any]) -> str:
    """Raises: ModelError."""
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise ModelError("general.architecture", "is missing from the file's metadata")
    return architecture


def _head_dim(keys: Keys, width: int, num_heads: int) -> int:
    head_dim = keys.size("attention.key_length", most=2**12, default=max(1, width // num_heads))
    if not keys.has("attention.key_length") and width % num_heads:
        raise ModelError(
            keys.name("embedding_length"),
            f"is {width}, which the {num_heads} heads do not divide",
        )
    if head_dim % 2:
        raise ModelError(keys.name("attention.key_length"), f"is {head_dim}, which is odd")
    if keys.size("attention.value_length", most=2**12, default=head_dim) != head_dim:
        raise ModelError(
            keys.name("attention.value_length"), "differs from key_length, which is not supported"
        )
    return head_dim


def _vocab_size(keys: Keys) -> int:
    tokens = keys.metadata.get("tokenizer.ggml.tokens")
    if tokens is None:
        return keys.size("vocab_size", most=2**24)
    if isinstance(tokens, str | int | float) or not 1 <= len(tokens) <= 2**24:
        raise ModelError("tokenizer.ggml.tokens", f"must be a list of 1 to {2**24} tokens")
    return len(tokens)


def _window(keys: Keys) -> WindowConfig | None:
    """Gemma's alternation of layers; other architectures' windows are not used by their models."""
    if keys.architecture != "gemma3":
        return None
    window_len = keys.size("attention.sliding_window", least=0, most=2**30, default=0)
    if window_len == 0:
        return None
    old_key = "rope.local.freq_base"
    base_key = old_key if keys.has(old_key) else "rope.freq_base_swa"
    return WindowConfig(
        window_len,
        keys.size("attention.sliding_window_pattern", most=1024, default=GEMMA3_WINDOW_PERIOD),
        keys.real(base_key, least=1.001, most=1e12, default=GEMMA3_LOCAL_ROPE_BASE),
    )
