"""softcap. Owns the definition; knows nothing about programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


def softcap(x: npt.NDArray[np.float32], cap: float) -> npt.NDArray[np.float32]:
    """cap * tanh(x / cap), element by element. Source: Gemma team 2024, arXiv:2408.00118."""
    y: npt.NDArray[np.float32] = np.float32(cap) * np.tanh(x / np.float32(cap))
    return y
