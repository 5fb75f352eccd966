"""How much of what the machine can do a case used, counted from the model file.

Owns the counting: weights read for a token, multiply-adds for a row. Attention and everything else is left
out, so a share is a lower bound. Measures nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from inference.model.gguf.file import read_gguf

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.cases import Case
    from benchmarks.ceiling import Ceiling


@dataclass(frozen=True)
class Work:
    """read_bytes: of all matrices. multiply_adds: of a row; output_multiply_adds: those for its logits."""

    read_bytes: int
    multiply_adds: int
    output_multiply_adds: int


@dataclass(frozen=True)
class Share:
    of: str
    share: float


def work_of(model: Path) -> Work:
    """Raises: GGUFError."""
    with read_gguf(model) as file:
        matrices = {name: t for name, t in file.tensors.items() if len(t.shape) == 2}
        output = matrices.get("output.weight", matrices["token_embd.weight"])
        if output.name == "output.weight":
            del matrices["token_embd.weight"]  # a row of it is looked up
        sizes = {name: t.shape[0] * t.shape[1] for name, t in matrices.items()}
        return Work(
            sum(t.num_bytes for t in matrices.values()), sum(sizes.values()), sizes[output.name]
        )


def share_of(case: Case, rate: float, work: Work, ceiling: Ceiling) -> Share | None:
    """What one sequence decodes is bound by reading, everything else by multiplying; rate in tokens/s."""
    if case.measure == "ttft":
        return None
    if case.measure == "decode" and case.num_sequences == 1:
        return Share("reading", round(rate * work.read_bytes / 1e9 / ceiling.read_gb_s, 2))
    multiply_adds = work.multiply_adds
    if case.measure == "prompt":
        multiply_adds -= work.output_multiply_adds  # the last row alone has logits
    most = ceiling.amx_multiply_adds_g_s or ceiling.multiply_adds_g_s
    return Share("multiply-adds", round(rate * multiply_adds / 1e9 / most, 2))
