"""A model file's tensors as the weights an architecture asks for.

Owns the checks of names and shapes, and the order of rows; reads no file and expands no matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from inference.model.errors import ModelError
from kernels.reference.dequantise import DEQUANTISERS, dequantise
from kernels.specs.tensor import Part, Vector, Weight

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from kernels.specs.tensor import Tensor


class Weights:
    """The tensors of one file. A matrix that is asked for twice is the same object both times."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors
        self._matrices: dict[tuple[str, int], Weight] = {}
        self._names_read: set[str] = set()

    def matrix(self, name: str, rows: int, k: int, pairs: int = 0) -> Weight:
        """The matrix `name`.weight, (rows, k).

        `pairs`, where given, is the head_dim of rows whose rotary pairs are neighbours in the file;
        they are taken in half-split order. Raises: ModelError where it is absent or of another shape.
        """
        key = (name, pairs)
        if key not in self._matrices:
            tensor = self._tensor(f"{name}.weight", (rows, k))
            order = half_split_order(rows, pairs) if pairs else None
            self._matrices[key] = Weight(name, (Part(tensor, order),))
        weight = self._matrices[key]
        self._check_shape(weight.parts[0].tensor, (rows, k))
        return weight

    def output(self, table: Weight) -> Weight:
        """The matrix that makes logits: the file's own, or the embedding table where it has none."""
        if "output.weight" not in self._tensors:
            return table
        return self.matrix("output", table.num_rows, table.k)

    def vector(self, name: str, n: int) -> Vector:
        """The vector `name`.weight, (n,). Raises: ModelError."""
        return self._vector(f"{name}.weight", n)

    def bias(self, name: str, n: int) -> Vector:
        """The vector `name`.bias, (n,). Raises: ModelError."""
        return self._vector(f"{name}.bias", n)

    def optional_vector(self, name: str, n: int) -> Vector | None:
        """As `vector`; None where the file has none."""
        return self.vector(name, n) if f"{name}.weight" in self._tensors else None

    def layer(self, index: int) -> LayerWeights:
        return LayerWeights(self, f"blk.{index}.")

    def names_unread(self) -> list[str]:
        """Tensors of the file that nobody asked for."""
        return [name for name in self._tensors if name not in self._names_read]

    def _vector(self, name: str, n: int) -> Vector:
        tensor = self._tensor(name, (n,))
        if tensor.quant not in DEQUANTISERS:
            raise ModelError(name, f"is stored as {tensor.quant}, which is not supported")
        values = dequantise(tensor.quant, tensor.data, 1, n)[0]
        if not np.isfinite(values).all():
            raise ModelError(name, "holds values that are not finite")
        return Vector(name, values)

    def _tensor(self, name: str, shape: tuple[int, ...]) -> Tensor:
        tensor = self._tensors.get(name)
        if tensor is None:
            raise ModelError(name, "is missing from the file's tensors")
        self._check_shape(tensor, shape)
        self._names_read.add(name)
        return tensor

    @staticmethod
    def _check_shape(tensor: Tensor, shape: tuple[int, ...]) -> None:
        if tensor.shape != shape:
            raise ModelError(tensor.name, f"has shape {tensor.shape} where the model needs {shape}")


@dataclass(frozen=True)
class LayerWeights:
    """The tensors of one layer, named without their prefix."""

    weights: Weights
    prefix: str

    def matrix(self, name: str, rows: int, k: int, pairs: int = 0) -> Weight:
        return self.weights.matrix(self.prefix + name, rows, k, pairs)

    def vector(self, name: str, n: int) -> Vector:
        return self.weights.vector(self.prefix + name, n)

    def bias(self, name: str, n: int) -> Vector:
        return self.weights.bias(self.prefix + name, n)


def half_split_order(num_rows: int, head_dim: int) -> npt.NDArray[np.int64]:
    """Rows of heads stored as pairs (0, 1), (2, 3), ... in the order first halves, second halves."""
    rows = np.arange(num_rows, dtype=np.int64).reshape(-1, head_dim // 2, 2)
    return rows.swapaxes(1, 2).reshape(-1)
