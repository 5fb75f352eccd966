"""gated. Owns the activations and the definition; knows nothing about programs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt


def silu(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """x * sigmoid(x), element by element, without overflow on either side."""
    half = np.float32(0.5)
    y: npt.NDArray[np.float32] = x * (half * np.tanh(half * x) + half)
    return y


def gelu(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The tanh form, element by element. Source: Hendrycks & Gimpel 2016, arXiv:1606.08415."""
    inner = np.float32(math.sqrt(2.0 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    y: npt.NDArray[np.float32] = np.float32(0.5) * x * (1 + np.tanh(inner))
    return y


ACTIVATIONS: dict[str, Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]] = {
    "silu": silu,
    "gelu": gelu,
}


def gated(
    gate: npt.NDArray[np.float32], up: npt.NDArray[np.float32], activation: str
) -> npt.NDArray[np.float32]:
    """act(gate) * up. Shapes: (N, D), (N, D) -> (N, D) f32. Source: Shazeer 2020, arXiv:2002.05202."""
    return ACTIVATIONS[activation](gate) * up
