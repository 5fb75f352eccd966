"""The reference backend: NumPy float32, slow and obvious, the oracle of the others.

Owns the walk over a program's ops; knows nothing about requests. A row's logits do not depend on the
rows beside it, bit for bit: every product and sum is taken row by row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.backend import MemoryUse
from accel.errors import OutOfMemory, UnsupportedProgram
from accel.reference.handlers import HANDLERS, Call
from accel.reference.matrices import expand
from accel.reference.pages import KV_TYPES, make_pages
from kernels.reference.dequantise import DEQUANTISERS
from kernels.reference.gated import ACTIVATIONS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from accel.backend import Limits, Progress, StepBatch
    from kernels.specs.program import Program
    from kernels.specs.tensor import Weight


class ReferenceBackend:
    """Takes unfused and fused programs; KV types f16 and f32."""

    name = "reference"

    def compile(self, program: Program, limits: Limits, progress: Progress) -> ReferenceExecutor:
        """Expand all weights. Raises: UnsupportedProgram, OutOfMemory."""
        self._check(program, limits)
        matrices: dict[Weight, npt.NDArray[np.float32]] = {}
        weights = {weight: None for op in program.ops for weight in op.weights}
        for done, weight in enumerate(weights):
            progress("expanding weights", done / len(weights))
            try:
                matrices[weight] = expand(weight)
            except MemoryError as error:
                raise OutOfMemory(weight.name, weight.num_rows * weight.k * 4) from error
        progress("expanding weights", 1.0)
        return ReferenceExecutor(program, limits, matrices)

    def _check(self, program: Program, limits: Limits) -> None:
        if limits.kv_type not in KV_TYPES:
            raise UnsupportedProgram(self.name, f"a KV cache of type {limits.kv_type}")
        for op in program.ops:
            if op.kind not in HANDLERS:
                raise UnsupportedProgram(self.name, f"the op {op.kind}")
            activation = op.attrs.get("activation")
            if activation is not None and activation not in ACTIVATIONS:
                raise UnsupportedProgram(self.name, f"the activation {activation}")
            for weight in op.weights:
                for quant in weight.quants:
                    if quant not in DEQUANTISERS:
                        raise UnsupportedProgram(self.name, f"{weight.name} stored as {quant}")


class ReferenceExecutor:
    """A program with expanded weights and KV pages."""

    num_in_flight = 1

    def __init__(
        self, program: Program, limits: Limits, matrices: dict[Weight, npt.NDArray[np.float32]]
    ) -> None:
        self._program = program
        self._limits = limits
        self._matrices = matrices
        self._pages = make_pages(program.kv_layers, limits.num_pages, limits.kv_type)

    @property
    def memory(self) -> MemoryUse:
        widest = sum(op.output.width for op in self._program.ops)
        return MemoryUse(
            weight_bytes=sum(matrix.nbytes for matrix in self._matrices.values()),
            kv_bytes=sum(page.keys.nbytes + page.values.nbytes for page in self._pages),
            buffer_bytes=widest * self._limits.max_rows * 4,
        )

    def start(self, batch: StepBatch) -> None:
        """Run the step to its end. Appends to the KV pages."""
        assert len(batch.tokens) <= self._limits.max_rows
        assert len(batch.logit_rows) <= self._limits.max_logit_rows
        values: dict[int, npt.NDArray[np.float32]] = {}
        for op in self._program.ops:
            call = Call(
                inputs=[values[buffer.index] for buffer in op.inputs],
                weights=[self._matrices[weight] for weight in op.weights],
                vectors={name: vector.values for name, vector in op.vectors.items()},
                attrs=op.attrs,
                batch=batch,
                pages=self._pages,
            )
            values[op.output.index] = HANDLERS[op.kind](call)
        self._logits = values[self._program.logits.index]

    def finish(self) -> npt.NDArray[np.float32]:
        """See accel.backend.Executor."""
        return self._logits

    def close(self) -> None:
        """Give weights and pages back."""
        self._matrices.clear()
        self._pages.clear()
