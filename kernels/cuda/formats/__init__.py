"""The formats weights have on a die: where each keeps its bits, and what of a file becomes which.

Owns the sizes of the planes; the kernels' side is in the `.cuh` files beside it, the host's in
`kernels.cuda.pack`. A weight is cut into blocks of 32 values; every plane is an array over blocks (the
supers: over every eight), so that a warp reads aligned neighbours whatever a file's quant blocks look like.
"""

from __future__ import annotations

from dataclasses import dataclass

BLOCK_LEN = 32
PLANES = ("quants", "highs", "scales", "supers")


@dataclass(frozen=True)
class PlaneFormat:
    """Bytes of one block in each plane; `super_bytes` of eight blocks; 0 where there is no such plane."""

    name: str
    quant_bytes: int
    high_bytes: int = 0
    scale_bytes: int = 0
    super_bytes: int = 0

    def plane_bytes(self, num_blocks: int) -> tuple[int, int, int, int]:
        """The size of each plane. num_blocks is a multiple of eight where there are supers."""
        return (
            num_blocks * self.quant_bytes,
            num_blocks * self.high_bytes,
            num_blocks * self.scale_bytes,
            num_blocks // 8 * self.super_bytes,
        )

    @property
    def bits_per_weight(self) -> float:
        return sum(self.plane_bytes(8)) * 8 / (8 * BLOCK_LEN)


_FORMATS = (
    PlaneFormat("F32", 128),
    PlaneFormat("F16", 64),
    PlaneFormat("BF16", 64),
    PlaneFormat("Q4_0", 16, 0, 2),
    PlaneFormat("Q4_1", 16, 0, 4),
    PlaneFormat("Q5_0", 16, 4, 2),
    PlaneFormat("Q5_1", 16, 4, 4),
    PlaneFormat("Q8_0", 32, 0, 2),
    PlaneFormat("Q8_F", 32, 0, 4),
    PlaneFormat("Q2_K", 8, 0, 2, 4),
    PlaneFormat("Q4_K", 16, 0, 2, 4),
    PlaneFormat("Q5_K", 16, 4, 2, 4),
    PlaneFormat("Q6_K", 16, 8, 2, 2),
)
FORMATS: dict[str, PlaneFormat] = {fmt.name: fmt for fmt in _FORMATS}

# Formats of files that have no planes of their own become one whose values they can be, exactly.
_CONVERTED = {"Q3_K": "Q6_K", "IQ4_NL": "Q8_F", "IQ4_XS": "Q8_F"}


def format_of(quant: str) -> PlaneFormat | None:
    """What a file's format becomes on a die; None where nothing takes it."""
    return FORMATS.get(_CONVERTED.get(quant, quant))
