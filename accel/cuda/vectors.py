"""Small float vectors and rotary tables of one die: norm gains, biases, cosines and sines.

Owns the one area that holds all of a stage's; knows no op beyond which it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accel.cuda.plan import Area, At, aligned
from accel.cuda.rotation import angles_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from kernels.specs.program import Op
    from kernels.specs.tensor import RopeTable, Vector


class Vectors:
    """Those of `ops`; rotary tables for positions below `num_positions`. Each is stored once."""

    def __init__(self, ops: Sequence[Op], num_positions: int) -> None:
        arrays: dict[Vector | RopeTable, npt.NDArray[np.float32]] = {}
        for op in ops:
            arrays |= {vector: vector.values for vector in op.vectors.values()}
            table = op.attrs.get("rope")
            if table is not None and table not in arrays:
                arrays[table] = angles_of(table, num_positions)
        self._arrays: list[tuple[int, npt.NDArray[np.float32]]] = []
        offsets, end = {}, 0
        for key, values in arrays.items():
            offsets[key] = end
            self._arrays.append((end, np.ascontiguousarray(values, np.float32)))
            end += aligned(values.nbytes)
        self.area = Area("weights", "norms and rotary tables", end)
        self._places = {key: At(self.area, offset) for key, offset in offsets.items()}

    def at(self, key: Vector | RopeTable) -> At:
        """Shapes: a vector (n,) f32; a table (num_positions, num_pairs, 2) f32, cosine and sine."""
        return self._places[key]

    def arrays(self) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
        """(offset, values) of everything."""
        yield from self._arrays
