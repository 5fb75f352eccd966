"""attention_qkv, the fused op from one matmul's output. Owns its composition of the plain ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.reference.add_bias import add_bias
from kernels.reference.attention import LayerPages, Rows, attention
from kernels.reference.head_rms_norm import head_rms_norm
from kernels.reference.rope import rope

if TYPE_CHECKING:
    import numpy.typing as npt

    from kernels.specs.tensor import RopeTable


def attention_qkv(
    x: npt.NDArray[np.float32],
    rows: Rows,
    pages: LayerPages,
    *,
    table: RopeTable,
    scale: float,
    window: int,
    eps: float,
    bias: npt.NDArray[np.float32] | None,
    q_gain: npt.NDArray[np.float32] | None,
    k_gain: npt.NDArray[np.float32] | None,
) -> npt.NDArray[np.float32]:
    """Bias, head norms, rope and attention of queries, keys and values that lie side by side.

    Shapes: x (N, (H + 2 * num_kv_heads) * head_dim) -> (N, H * head_dim) f32. `eps` is that of the head
    norms, which are left out where their gain is None. Writes to the pages.
    """
    num_kv_heads, head_dim = pages.keys.shape[2:]
    kv_width = num_kv_heads * head_dim
    if bias is not None:
        x = add_bias(x, bias)
    q_width = x.shape[1] - 2 * kv_width
    q, k, v = np.split(x, [q_width, q_width + kv_width], axis=1)
    if q_gain is not None:
        q = head_rms_norm(q, q_gain, head_dim, eps)
    if k_gain is not None:
        k = head_rms_norm(k, k_gain, head_dim, eps)
    q = rope(q, rows.positions, head_dim, table)
    k = rope(k, rows.positions, head_dim, table)
    return attention(q, k, v, rows, pages, scale, window)
