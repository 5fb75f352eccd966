"""What a model file says about how its output is best sampled: the keys `general.sampling.*`.

Owns their names and the values that make sense. Knows no sampler; a value that makes none is left out.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

logger = logging.getLogger(__name__)

_PREFIX = "general.sampling."


@dataclass(frozen=True)
class SamplingDefaults:
    """None: the file does not say. repeat_last_n -1: the whole context."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int | None = None


def _share(value: float) -> bool:
    return 0.0 <= value <= 1.0


# Source of the names: gguf-py's constants (Keys.General), which llama.cpp's converter writes.
_KEYS: Mapping[str, tuple[str, type[int] | type[float], Callable[[float], bool]]] = {
    "temp": ("temperature", float, lambda value: 0.0 <= value <= 2.0),
    "top_k": ("top_k", int, lambda value: value >= 0),
    "top_p": ("top_p", float, _share),
    "min_p": ("min_p", float, _share),
    "penalty_repeat": ("repeat_penalty", float, lambda value: 0.001 <= value <= 10.0),
    "penalty_last_n": ("repeat_last_n", int, lambda value: value >= -1),
}


def read_sampling_defaults(metadata: Mapping[str, object]) -> SamplingDefaults:
    """Keys without a meaning here (mirostat, xtc, sequence) are left out, and so are impossible values."""
    found: dict[str, float] = {}
    for key, value in metadata.items():
        if not key.startswith(_PREFIX):
            continue
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
        name, kind, makes_sense = _KEYS.get(key.removeprefix(_PREFIX), ("", float, _share))
        if not name or number is None or not math.isfinite(number) or not makes_sense(number):
            logger.info("%s of the model file is not applied", key)
        else:
            # The file holds float32; six digits are what somebody wrote.
            found[name] = float(f"{number:.6g}") if kind is float else int(number)
    return SamplingDefaults(**found)  # type: ignore[arg-type]
