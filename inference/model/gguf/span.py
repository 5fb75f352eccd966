"""A span of an open model file, read when it is wanted.

Owns that every read is whole or refused. The file is not mapped: whoever touches a page of a mapping
beyond the end of a file that became shorter takes the whole process down.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from inference.model.errors import GGUFError

if TYPE_CHECKING:
    from io import FileIO

    import numpy.typing as npt


class FileSpan:
    """`nbytes` bytes of the file from `start` on; `field` names them in errors. Thread-safe."""

    def __init__(self, file: FileIO, field: str, start: int, nbytes: int) -> None:
        self._file, self._field, self.start, self.nbytes = file, field, start, nbytes

    def read(self, begin: int, end: int) -> npt.NDArray[np.uint8]:
        """Bytes begin to end of the span, in memory of their own that cannot be written to.

        Raises: GGUFError, when the file cannot be read or became shorter; ValueError once it is closed.
        """
        data = np.empty(end - begin, np.uint8)
        left, offset = data.data, self.start + begin
        while left:
            try:
                num_bytes = os.preadv(self._file.fileno(), [left], offset)
            except OSError as error:
                raise GGUFError(self._field, f"cannot be read ({error.strerror})") from error
            if num_bytes == 0:
                raise GGUFError(self._field, "cannot be read: the file became shorter")
            left, offset = left[num_bytes:], offset + num_bytes
        data.flags.writeable = False
        return data
