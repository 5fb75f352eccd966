"""How each op kind calls its reference kernel. Owns the table; holds no mathematics of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernels.reference.add import add
from kernels.reference.add_bias import add_bias
from kernels.reference.attention import LayerPages, Rows, attention
from kernels.reference.attention_qkv import attention_qkv
from kernels.reference.embed import embed
from kernels.reference.gated import gated
from kernels.reference.head_rms_norm import head_rms_norm
from kernels.reference.matmul import matmul, matmul_add, matmul_gated
from kernels.reference.rms_norm import rms_norm, rms_norm_add
from kernels.reference.rope import rope
from kernels.reference.softcap import softcap
from kernels.reference.take_logit_rows import take_logit_rows, take_rms_norm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from accel.backend import StepBatch

    Array = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Call:
    """One op at one step: its inputs, expanded weights, vectors and attributes, and the step's rows."""

    inputs: Sequence[Array]
    weights: Sequence[Array]
    vectors: Mapping[str, Array]
    attrs: Mapping[str, Any]
    batch: StepBatch
    pages: Sequence[LayerPages]

    @property
    def rows(self) -> Rows:
        return Rows(self.batch.positions, self.batch.slots, self.batch.page_table)


def _rope(c: Call) -> Array:
    return rope(c.inputs[0], c.batch.positions, c.attrs["head_dim"], c.attrs["rope"])


def _attention(c: Call) -> Array:
    q, k, v = c.inputs
    pages = c.pages[c.attrs["layer"]]
    return attention(q, k, v, c.rows, pages, c.attrs["scale"], c.attrs["window"])


def _attention_qkv(c: Call) -> Array:
    return attention_qkv(
        c.inputs[0],
        c.rows,
        c.pages[c.attrs["layer"]],
        table=c.attrs["rope"],
        scale=c.attrs["scale"],
        window=c.attrs["window"],
        eps=c.attrs["eps"],
        bias=c.vectors.get("bias"),
        q_gain=c.vectors.get("q_gain"),
        k_gain=c.vectors.get("k_gain"),
    )


HANDLERS: dict[str, Callable[[Call], Array]] = {
    "embed": lambda c: embed(c.weights[0], c.batch.tokens, c.attrs["scale"]),
    "rms_norm": lambda c: rms_norm(c.inputs[0], c.vectors["gain"], c.attrs["eps"]),
    "matmul": lambda c: matmul(c.inputs[0], c.weights[0]),
    "add_bias": lambda c: add_bias(c.inputs[0], c.vectors["bias"]),
    "add": lambda c: add(c.inputs[0], c.inputs[1]),
    "head_rms_norm": lambda c: head_rms_norm(
        c.inputs[0], c.vectors["gain"], c.attrs["head_dim"], c.attrs["eps"]
    ),
    "rope": _rope,
    "attention": _attention,
    "gated": lambda c: gated(c.inputs[0], c.inputs[1], c.attrs["activation"]),
    "take_logit_rows": lambda c: take_logit_rows(c.inputs[0], c.batch.logit_rows),
    "softcap": lambda c: softcap(c.inputs[0], c.attrs["cap"]),
    "matmul_add": lambda c: matmul_add(c.inputs[0], c.inputs[1], c.weights[0]),
    "matmul_gated": lambda c: matmul_gated(
        c.inputs[0], c.weights[0], c.weights[1], c.attrs["activation"]
    ),
    "rms_norm_add": lambda c: rms_norm_add(
        c.inputs[0], c.inputs[1], c.vectors["gain"], c.attrs["eps"]
    ),
    "take_rms_norm": lambda c: take_rms_norm(
        c.inputs[0], c.batch.logit_rows, c.vectors["gain"], c.attrs["eps"]
    ),
    "attention_qkv": _attention_qkv,
}
