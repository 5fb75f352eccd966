"""attention over paged keys and values. Owns the definition and the pages; knows nothing about programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class LayerPages:
    """One layer's keys and values: (num_pages, page_len, num_kv_heads, head_dim) each, f16 or f32.

    `rounding` is applied to what enters them.
    """

    keys: npt.NDArray[np.float16 | np.float32]
    values: npt.NDArray[np.float16 | np.float32]
    rounding: Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]] | None = None

    @property
    def page_len(self) -> int:
        return int(self.keys.shape[1])


@dataclass(frozen=True, eq=False)
class Rows:
    """Where rows stand: positions (N,), slots (N,), page_table (num_slots, max_pages_per_slot)."""

    positions: npt.NDArray[np.int32]
    slots: npt.NDArray[np.int32]
    page_table: npt.NDArray[np.int32]


def attention(
    q: npt.NDArray[np.float32],
    k: npt.NDArray[np.float32],
    v: npt.NDArray[np.float32],
    rows: Rows,
    pages: LayerPages,
    scale: float,
    window: int = 0,
) -> npt.NDArray[np.float32]:
    """Append the rows' keys and values, then attend causally, row by row.

    Shapes: q (N, H * head_dim), k and v (N, num_kv_heads * head_dim) -> (N, H * head_dim) f32. With a
    window a row sees the last `window` positions, its own included. Writes to the pages.
    Source: Vaswani et al. 2017, arXiv:1706.03762; grouped heads: Ainslie et al. 2023, arXiv:2305.13245.
    """
    num_kv_heads, head_dim = pages.keys.shape[2:]
    page = rows.page_table[rows.slots, rows.positions // pages.page_len]
    offset = rows.positions % pages.page_len
    k, v = (x.reshape(len(x), num_kv_heads, head_dim) for x in (k, v))
    pages.keys[page, offset] = pages.rounding(k) if pages.rounding else k
    pages.values[page, offset] = pages.rounding(v) if pages.rounding else v
    y = np.empty(
        (len(q), num_kv_heads, q.shape[1] // (num_kv_heads * head_dim), head_dim), np.float32
    )
    grouped = q.reshape(y.shape)
    for row, (position, slot) in enumerate(zip(rows.positions, rows.slots, strict=True)):
        first = max(0, position - window + 1) if window else 0
        keys, values = _read(pages, rows.page_table[slot], int(first), int(position) + 1)
        for head in range(num_kv_heads):
            scores = np.vecdot(grouped[row, head][:, None], keys[:, head]) * np.float32(scale)
            y[row, head] = np.vecdot(_softmax(scores)[:, None], values[:, head].T)
    return y.reshape(q.shape)


def _read(
    pages: LayerPages, table: npt.NDArray[np.int32], first: int, end: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Keys and values of positions first..end-1 of one slot, (end - first, num_kv_heads, head_dim) f32."""
    positions = np.arange(first, end)
    page, offset = table[positions // pages.page_len], positions % pages.page_len
    return (
        pages.keys[page, offset].astype(np.float32),
        pages.values[page, offset].astype(np.float32),
    )


def _softmax(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Shapes: (H, P) -> (H, P) f32, each row summing to 1."""
    weights: npt.NDArray[np.float32] = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights
