"""Model files and small programs on dies."""

from __future__ import annotations

from accel.cuda.backend import CudaBackend
from inference.model.architectures import record
from inference.model.fusion import fuse
from inference.model.gguf import read_gguf


def silent(phase, share):
    """A progress callback."""


def compile_file(path, limits, num_dies=1, progress=silent):
    with read_gguf(path) as file:
        return compile_program(fuse(record(file)[1]), limits, num_dies, progress)


def compile_program(program, limits, num_dies=1, progress=silent):
    return CudaBackend(tuple(range(num_dies))).compile(program, limits, progress)
