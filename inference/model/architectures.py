"""The architectures that can be served, and the recording of a file's program.

Owns the table of names and the check that a file holds nothing its architecture would not use; knows
nothing about backends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from inference.model import gemma3, llama, qwen2, qwen3
from inference.model.builder import Builder
from inference.model.config import ModelConfig, architecture_of
from inference.model.errors import ModelError
from inference.model.float_weights import quantise_floats
from inference.model.weights import Weights

if TYPE_CHECKING:
    from collections.abc import Callable

    from inference.model.gguf import GGUFFile
    from kernels.specs.program import Buffer, Program

ARCHITECTURES: dict[str, Callable[[Builder, ModelConfig, Weights], Buffer]] = {
    "gemma3": gemma3.forward,
    "llama": llama.forward,
    "qwen2": qwen2.forward,
    "qwen3": qwen3.forward,
}


def record(gguf: GGUFFile, *, quantise: bool = False) -> tuple[ModelConfig, Program]:
    """The file's configuration and its program of unfused ops; `quantise`: float matrices become Q8_0.

    A tensor that the architecture does not read means that the model computes something else, so it
    is refused rather than served wrong. Raises: ModelError.
    """
    architecture = architecture_of(gguf.metadata)
    forward = ARCHITECTURES.get(architecture)
    if forward is None:
        raise ModelError(
            "general.architecture",
            f"is {architecture[:40]!r}, which is not supported; "
            f"supported are {', '.join(ARCHITECTURES)}",
        )
    config = ModelConfig.from_metadata(gguf.metadata)
    tensors = quantise_floats(gguf.tensors) if quantise else gguf.tensors
    weights, builder = Weights(tensors), Builder()
    program = builder.finish(forward(builder, config, weights))
    unread = weights.names_unread()
    if unread:
        raise ModelError(unread[0], f"is a tensor that {architecture} models do not have")
    return config, program
