"""GGUF files: opening one, and holding its metadata and its mapped tensors until closed.

Knows the order of the parts of a file; what is in the parts is for `metadata` and `tensor_table`.
Source: the GGUF specification, versions 2 and 3.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

import numpy as np

from inference.model.errors import GGUFError
from inference.model.gguf.cursor import Cursor
from inference.model.gguf.metadata import Value, read_metadata
from inference.model.gguf.tensor_table import TensorEntry, check_placement, read_tensor_table
from kernels.specs.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)


class GGUFFile:
    """An open model file. Tensor data are views of the mapped file: valid until `close`.

    The header is copied, so metadata outlive the file. Shortening the file while it is open is the
    one thing that cannot be refused: reading the lost part of a tensor then ends the process.
    """

    def __init__(
        self,
        path: Path,
        version: int,
        metadata: Mapping[str, Value],
        tensors: Mapping[str, Tensor],
        num_bytes: int,
        mapping: mmap.mmap,
    ) -> None:
        self.path = path
        self.version = version
        self.metadata: Mapping[str, Value] = MappingProxyType(dict(metadata))
        self.tensors: Mapping[str, Tensor] = MappingProxyType(dict(tensors))
        self.num_bytes = num_bytes
        self._mapping = mapping

    def close(self) -> None:
        """Forget the tensors and unmap the file, as soon as no view of it is in use elsewhere."""
        self.tensors = MappingProxyType({})
        # BufferError: someone still holds a tensor; the mapping goes with the last of them.
        with contextlib.suppress(BufferError):
            self._mapping.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read_gguf(path: Path) -> GGUFFile:
    """Open a model file; the caller closes it.

    Raises: GGUFError, when it cannot be read or is malformed in any way.
    """
    try:
        fd = _open_regular(path)
        try:
            return _read(path, fd, os.fstat(fd).st_size)
        finally:
            os.close(fd)
    except OSError as error:
        raise GGUFError("file", f"cannot be read ({error.strerror})") from error


def _open_regular(path: Path) -> int:
    # Looked at before it is opened (opening a device may do something), and without waiting for a
    # writer should it become a pipe in between.
    try:
        _require_regular(os.stat(path).st_mode)
    except ValueError as error:
        raise GGUFError("file", "has a name that no file can have") from error
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _require_regular(os.fstat(fd).st_mode)
    except GGUFError:
        os.close(fd)
        raise
    return fd


def _require_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise GGUFError("file", "is not a regular file")


def _read(path: Path, fd: int, size: int) -> GGUFFile:
    cursor = Cursor(fd, size)
    if cursor.take(4, "magic") != _MAGIC:
        raise GGUFError("magic", "is not GGUF; this is no GGUF model file")
    version = cursor.u32("version")
    if version not in _VERSIONS:
        raise GGUFError("version", _refuse_version(version))
    num_tensors = cursor.u64("tensor count")
    num_pairs = cursor.u64("metadata count")
    metadata, alignment = read_metadata(cursor, num_pairs)
    entries = read_tensor_table(cursor, num_tensors, alignment)
    data_start = -(-cursor.position // alignment) * alignment
    check_placement(entries, size - data_start)
    mapping = mmap.mmap(fd, size, access=mmap.ACCESS_READ)
    return GGUFFile(
        path, version, metadata, _map_tensors(mapping, entries, data_start), size, mapping
    )


def _refuse_version(version: int) -> str:
    if int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS:
        return "is byte-swapped: the file was written for a big-endian machine"
    return f"is {version}; versions {' and '.join(map(str, _VERSIONS))} can be read"


def _map_tensors(
    mapping: mmap.mmap, entries: list[TensorEntry], data_start: int
) -> dict[str, Tensor]:
    data = np.frombuffer(mapping, np.uint8)
    tensors = {}
    for entry in entries:
        begin = data_start + entry.offset
        view = data[begin : begin + entry.num_bytes]
        tensors[entry.name] = Tensor(entry.name, entry.quant, entry.shape, view)
    return tensors
