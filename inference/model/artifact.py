"""What a model file is, for people and for placement: its name, size, formats and memory needs.

Reads the header of the file and its digest; knows no architecture (a file that describes well may
still be one that cannot be built) and no database.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from inference.model.errors import ModelError
from inference.model.gguf import read_gguf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from inference.model.gguf import Value
    from kernels.specs.tensor import Tensor

_F16_BYTES = 2
_READ_BYTES = 2**22
_MAX_NAME_LEN = 128
_MAX_LAYERS = 4096
_MAX_LEN = 2**31


@dataclass(frozen=True)
class ArtifactInfo:
    """A model file at a glance. `kv_bytes_per_token` is for f16 keys and values, all layers."""

    architecture: str
    name: str
    num_parameters: int
    quant_mix: str
    context_len: int
    weight_bytes: int
    kv_bytes_per_token: int
    has_chat_template: bool
    file_bytes: int


def describe(path: Path) -> ArtifactInfo:
    """Read what a model file says of itself.

    Raises: GGUFError when the file is malformed, ModelError when it is no complete language model.
    """
    with read_gguf(path) as gguf:
        metadata = gguf.metadata
        _require_whole_model(metadata)
        architecture = _text(metadata, "general.architecture")
        name = metadata.get("general.name")
        template = metadata.get("tokenizer.chat_template")
        return ArtifactInfo(
            architecture=architecture,
            name=_shown(name if isinstance(name, str) and name.strip() else path.stem),
            num_parameters=sum(math.prod(tensor.shape) for tensor in gguf.tensors.values()),
            quant_mix=_quant_mix(gguf.tensors.values()),
            context_len=_positive(metadata, f"{architecture}.context_length", _MAX_LEN),
            weight_bytes=sum(tensor.num_bytes for tensor in gguf.tensors.values()),
            kv_bytes_per_token=_kv_bytes_per_token(metadata, architecture),
            has_chat_template=isinstance(template, str) and bool(template.strip()),
            file_bytes=gguf.num_bytes,
        )


def sha256_file(path: Path, progress: Callable[[int, int], None] | None = None) -> str:
    """The SHA-256 of a file in lower-case hex. `progress` is told (bytes done, bytes in all).

    Raises: OSError, when the file cannot be read.
    """
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(_READ_BYTES))
    with path.open("rb", buffering=0) as file:
        total, done = path.stat().st_size, 0
        while num_bytes := file.readinto(buffer):
            digest.update(buffer[:num_bytes])
            done += num_bytes
            if progress is not None:
                progress(done, total)
    return digest.hexdigest()


def _require_whole_model(metadata: Mapping[str, Value]) -> None:
    kind = metadata.get("general.type", "model")
    if kind != "model":
        raise ModelError(
            "general.type", f"is {_shown(str(kind))}; only complete models can be served"
        )
    num_parts = metadata.get("split.count", 1)
    if isinstance(num_parts, int) and num_parts > 1:
        raise ModelError(
            "split.count", f"says this is one of {num_parts} parts; join them into one file first"
        )


def _quant_mix(tensors: Iterable[Tensor]) -> str:
    """The formats of the matrices by share of their parameters: "Q4_1 79 %, Q8_0 21 %".

    Vectors are left out: norms are F32 in every file and hold next to nothing.
    """
    counts: Counter[str] = Counter()
    for tensor in tensors:
        if len(tensor.shape) > 1:
            counts[tensor.quant] += math.prod(tensor.shape)
    total = counts.total()
    shares = ((quant, round(100 * count / total)) for quant, count in counts.most_common())
    return ", ".join(f"{quant} {share} %" if share else f"{quant} <1 %" for quant, share in shares)


def _kv_bytes_per_token(metadata: Mapping[str, Value], architecture: str) -> int:
    """f16 bytes a position adds to the keys and values of all layers that attend to the past."""
    num_layers = _positive(metadata, f"{architecture}.block_count", _MAX_LAYERS)
    heads_key = f"{architecture}.attention.head_count"
    num_heads = _per_layer(metadata, heads_key, num_layers)
    kv_key = f"{architecture}.attention.head_count_kv"
    num_kv_heads = _per_layer(metadata, kv_key, num_layers) if kv_key in metadata else num_heads
    lengths_key = f"{architecture}.attention."
    if {f"{lengths_key}key_length", f"{lengths_key}value_length"} <= metadata.keys():
        head_bytes = _F16_BYTES * sum(
            _positive(metadata, f"{lengths_key}{side}_length", _MAX_LEN)
            for side in ("key", "value")
        )
    else:
        width = _positive(metadata, f"{architecture}.embedding_length", _MAX_LEN)
        if max(num_heads) == 0:
            raise ModelError(heads_key, "is 0")
        head_bytes = _F16_BYTES * 2 * (width // max(num_heads))
    attends = _attending_layers(metadata, architecture, num_layers)
    return head_bytes * sum(
        heads for heads, attending in zip(num_kv_heads, attends, strict=True) if attending
    )


def _attending_layers(
    metadata: Mapping[str, Value], architecture: str, num_layers: int
) -> list[bool]:
    """Hybrid models keep keys and values in some layers only, every n-th if not said one by one."""
    recurrent = metadata.get(f"{architecture}.attention.recurrent_layers")
    if isinstance(recurrent, np.ndarray) and len(recurrent) == num_layers:
        return [not flag for flag in recurrent.tolist()]
    interval_key = f"{architecture}.full_attention_interval"
    if interval_key not in metadata:
        return [True] * num_layers
    interval = _positive(metadata, interval_key, _MAX_LAYERS)
    return [(layer + 1) % interval == 0 for layer in range(num_layers)]


def _per_layer(metadata: Mapping[str, Value], key: str, num_layers: int) -> list[int]:
    """A count per layer, from a number for all of them or an array with one for each."""
    value = metadata.get(key)
    if not isinstance(value, np.ndarray):
        return [_positive(metadata, key, _MAX_LEN)] * num_layers
    if len(value) != num_layers or value.dtype.kind not in "iu":
        raise ModelError(key, f"must hold {num_layers} integers, one for each layer")
    counts = [int(count) for count in value]
    if not all(0 <= count <= _MAX_LEN for count in counts):
        raise ModelError(key, f"must hold numbers from 0 to {_MAX_LEN}")
    return counts


def _positive(metadata: Mapping[str, Value], key: str, limit: int) -> int:
    value = metadata.get(key)
    if value is None:
        raise ModelError(key, "is missing")
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= limit:
        raise ModelError(key, f"must be a whole number from 1 to {limit}")
    return value


def _text(metadata: Mapping[str, Value], key: str) -> str:
    value = metadata.get(key)
    if not isinstance(value, str) or not value:
        raise ModelError(key, "is missing" if value is None else "must be a text")
    return _shown(value)


def _shown(text: str) -> str:
    """Text of a stranger's file, on one line and short enough for a page or a log."""
    return "".join(ch if ch.isprintable() else " " for ch in text[:_MAX_NAME_LEN]).strip()
