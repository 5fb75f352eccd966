"""The tensor formats of GGUF files: how many values a quant block holds, and in how many bytes.

Knows the sizes alone: what the bytes of a quant block mean is the business of the kernels.
Source: the type ids and block layouts of GGML (`ggml.h`, `ggml-common.h`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class QuantSpec:
    """One format. A row of k values is k / block_len quant blocks of block_bytes each."""

    name: str
    ggml_type: int
    block_len: int
    block_bytes: int


_SPECS = (
    QuantSpec("F32", 0, 1, 4),
    QuantSpec("F16", 1, 1, 2),
    QuantSpec("Q4_0", 2, 32, 18),
    QuantSpec("Q4_1", 3, 32, 20),
    # 4 and 5 were Q4_2 and Q4_3, removed from the format.
    QuantSpec("Q5_0", 6, 32, 22),
    QuantSpec("Q5_1", 7, 32, 24),
    QuantSpec("Q8_0", 8, 32, 34),
    QuantSpec("Q8_1", 9, 32, 36),
    QuantSpec("Q2_K", 10, 256, 84),
    QuantSpec("Q3_K", 11, 256, 110),
    QuantSpec("Q4_K", 12, 256, 144),
    QuantSpec("Q5_K", 13, 256, 176),
    QuantSpec("Q6_K", 14, 256, 210),
    QuantSpec("Q8_K", 15, 256, 292),
    QuantSpec("IQ2_XXS", 16, 256, 66),
    QuantSpec("IQ2_XS", 17, 256, 74),
    QuantSpec("IQ3_XXS", 18, 256, 98),
    QuantSpec("IQ1_S", 19, 256, 50),
    QuantSpec("IQ4_NL", 20, 32, 18),
    QuantSpec("IQ3_S", 21, 256, 110),
    QuantSpec("IQ2_S", 22, 256, 82),
    QuantSpec("IQ4_XS", 23, 256, 136),
    QuantSpec("I8", 24, 1, 1),
    QuantSpec("I16", 25, 1, 2),
    QuantSpec("I32", 26, 1, 4),
    QuantSpec("I64", 27, 1, 8),
    QuantSpec("F64", 28, 1, 8),
    QuantSpec("IQ1_M", 29, 256, 56),
    QuantSpec("BF16", 30, 1, 2),
    # 31 to 33 were repacked Q4_0 and 36 to 38 repacked IQ4_NL, removed from files.
    QuantSpec("TQ1_0", 34, 256, 54),
    QuantSpec("TQ2_0", 35, 256, 66),
    QuantSpec("MXFP4", 39, 32, 17),
    QuantSpec("NVFP4", 40, 64, 36),
    QuantSpec("Q1_0", 41, 128, 18),
)

QUANTS: dict[str, QuantSpec] = {spec.name: spec for spec in _SPECS}
BY_GGML_TYPE: dict[int, QuantSpec] = {spec.ggml_type: spec for spec in _SPECS}


def row_bytes(quant: str, k: int) -> int:
    """Bytes of a row of k values.

    Raises: KeyError for an unknown format, ValueError where k is no multiple of the block length.
    """
    spec = QUANTS[quant]
    if k < 0 or k % spec.block_len:
        raise ValueError(f"A {quant} row holds a multiple of {spec.block_len} values, not {k}.")
    return k // spec.block_len * spec.block_bytes
