"""GGUF files: opening one, and holding its metadata and its tensors until closed.

Knows the order of the parts of a file; what is in the parts is for `metadata` and `tensor_table`.
Source: the GGUF specification, versions 2 and 3.
"""

from __future__ import annotations

import os
import stat
from io import FileIO
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from inference.model.errors import GGUFError
from inference.model.gguf.cursor import Cursor, quoted
from inference.model.gguf.metadata import Value, read_metadata
from inference.model.gguf.span import FileSpan
from inference.model.gguf.tensor_table import TensorEntry, check_placement, read_tensor_table
from kernels.specs.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)


class GGUFFile:
    """An open model file. Tensors read their bytes from it when asked, until `close`.

    The header is copied, so metadata outlive the file. A file that is shortened while it is open is
    refused when the lost part of a tensor is read.
    """

    def __init__(
        self,
        path: Path,
        version: int,
        metadata: Mapping[str, Value],
        tensors: Mapping[str, Tensor],
        num_bytes: int,
        file: FileIO,
    ) -> None:
        self.path = path
        self.version = version
        self.metadata: Mapping[str, Value] = MappingProxyType(dict(metadata))
        self.tensors: Mapping[str, Tensor] = MappingProxyType(dict(tensors))
        self.num_bytes = num_bytes
        self._file = file

    def forget_metadata(self) -> None:
        """Let the values of the header go, a vocabulary among them. Tensors can be read as before."""
        self.metadata = MappingProxyType({})

    def close(self) -> None:
        """Forget the tensors and close the file; bytes that were read stay."""
        self.tensors = MappingProxyType({})
        self._file.close()

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
        file = _open_regular(path)
        try:
            return _read(path, file, os.fstat(file.fileno()).st_size)
        except BaseException:
            file.close()
            raise
    except OSError as error:
        raise GGUFError("file", f"cannot be read ({error.strerror})") from error


def _open_regular(path: Path) -> FileIO:
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
    return FileIO(fd)


def _require_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise GGUFError("file", "is not a regular file")


def _read(path: Path, file: FileIO, size: int) -> GGUFFile:
    cursor = Cursor(file.fileno(), size)
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
    tensors = {entry.name: _tensor(file, entry, data_start) for entry in entries}
    return GGUFFile(path, version, metadata, tensors, size, file)


def _refuse_version(version: int) -> str:
    if int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS:
        return "is byte-swapped: the file was written for a big-endian machine"
    return f"is {version}; versions {' and '.join(map(str, _VERSIONS))} can be read"


def _tensor(file: FileIO, entry: TensorEntry, data_start: int) -> Tensor:
    field = f"tensor {quoted(entry.name)}"
    span = FileSpan(file, field, data_start + entry.offset, entry.num_bytes)
    return Tensor(entry.name, entry.quant, entry.shape, span)
