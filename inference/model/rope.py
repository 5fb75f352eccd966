"""Rotary position embeddings: from metadata to the angles per position.

Owns the scaling rules (none, linear, Llama 3's factors, YaRN); knows nothing about architectures.
Sources: Su et al. 2021, arXiv:2104.09864 (RoPE); Peng et al. 2023, arXiv:2309.00071 (YaRN).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from inference.model.errors import ModelError
from kernels.specs.tensor import RopeTable

if TYPE_CHECKING:
    import numpy.typing as npt

    from inference.model.keys import Keys
    from kernels.specs.tensor import Vector

SCALINGS = ("none", "linear", "yarn")
MIN_FREQUENCY_FACTOR = 1e-6


@dataclass(frozen=True)
class YarnConfig:
    """YaRN's parameters; `attention_factor` multiplies cos and sin."""

    original_context_len: int
    beta_fast: float
    beta_slow: float
    ext_factor: float
    attention_factor: float


@dataclass(frozen=True)
class RopeConfig:
    """`num_dims` of every head are rotated; positions count 1 / factor each where scaled."""

    num_dims: int
    base: float
    factor: float = 1.0
    yarn: YarnConfig | None = None

    @staticmethod
    def from_keys(keys: Keys, head_dim: int, context_len: int) -> RopeConfig:
        """Raises: ModelError, also for scaling types that are not supported."""
        num_dims = keys.size("rope.dimension_count", most=head_dim, default=head_dim)
        if num_dims % 2:
            raise ModelError(keys.name("rope.dimension_count"), f"is {num_dims}, which is odd")
        base = keys.real("rope.freq_base", least=1.001, most=1e12, default=10000.0)
        scaling = keys.text("rope.scaling.type", "linear" if _factor(keys) != 1.0 else "none")
        if scaling not in SCALINGS:
            raise ModelError(
                keys.name("rope.scaling.type"),
                f"is {scaling[:40]!r}, which is not supported; supported are {', '.join(SCALINGS)}",
            )
        factor = 1.0 if scaling == "none" else _factor(keys)
        yarn = _yarn(keys, factor, context_len) if scaling == "yarn" else None
        return RopeConfig(num_dims, base, factor, yarn)

    def table(self, factors: Vector | None = None) -> RopeTable:
        """The angles. `factors` (num_dims / 2,), where given, divide the frequencies one by one.

        Llama 3's scaling is stored in the file as such factors. Raises: ModelError.
        """
        pairs = np.arange(self.num_dims // 2, dtype=np.float64)
        own = self.base ** (-2.0 * pairs / self.num_dims)
        if factors is not None:
            if factors.values.min() < MIN_FREQUENCY_FACTOR:
                raise ModelError(factors.name, "holds a factor that is not positive")
            own = own / factors.values.astype(np.float64)
        if self.yarn is None:
            return RopeTable(own / self.factor)
        kept = self._share_kept(self.yarn, pairs)
        inv_freq = own / self.factor * (1.0 - kept) + own * kept
        return RopeTable(inv_freq, self.yarn.attention_factor)

    def _share_kept(
        self, yarn: YarnConfig, pairs: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """How much of its own frequency each pair keeps: 1 for fast pairs, 0 for slow ones.

        Source: YaRN, section 3.2, with the bounds rounded outwards to whole pairs.
        """

        def pair_turning(num_turns: float) -> float:
            ratio = yarn.original_context_len / (num_turns * 2.0 * math.pi)
            return self.num_dims * math.log(ratio) / (2.0 * math.log(self.base))

        low = max(0.0, math.floor(pair_turning(yarn.beta_fast)))
        high = min(self.num_dims - 1.0, math.ceil(pair_turning(yarn.beta_slow)))
        ramp = np.clip((pairs - low) / max(0.001, high - low), 0.0, 1.0)
        return (1.0 - ramp) * yarn.ext_factor


def _factor(keys: Keys) -> float:
    """Older files call it scale_linear, and write 0 for none."""
    key = "rope.scaling.factor" if keys.has("rope.scaling.factor") else "rope.scale_linear"
    if keys.real(key, least=0.0, most=1e6, default=1.0) == 0.0:
        return 1.0
    return keys.real(key, least=1e-3, most=1e6, default=1.0)


def _yarn(keys: Keys, factor: float, context_len: int) -> YarnConfig:
    """The attention factor is 1 + 0.1 ln(factor), over the same with `yarn_log_multiplier` where given."""
    log_multiplier = keys.real("rope.scaling.yarn_log_multiplier", least=0, most=100, default=0.0)
    magnitude = _magnitude(factor, 1.0)
    if log_multiplier:
        magnitude /= _magnitude(factor, log_multiplier)
    return YarnConfig(
        keys.size("rope.scaling.original_context_length", most=2**30, least=1, default=context_len),
        keys.real("rope.scaling.yarn_beta_fast", least=1e-3, most=1e6, default=32.0),
        keys.real("rope.scaling.yarn_beta_slow", least=1e-3, most=1e6, default=1.0),
        keys.real("rope.scaling.yarn_ext_factor", least=0.0, most=1.0, default=1.0),
        magnitude * keys.real("rope.scaling.attn_factor", least=1e-6, most=1e6, default=1.0),
    )


def _magnitude(factor: float, multiplier: float) -> float:
    return 1.0 if factor <= 1.0 else 1.0 + 0.1 * multiplier * math.log(factor)
