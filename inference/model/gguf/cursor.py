"""The cursor: bounded reads of little-endian values, strings and string lists from a file.

Knows where the file ends and how large a header may be; knows nothing of what the values mean.
Every length is compared, as a Python int, with what is left before anything is allocated.
"""

from __future__ import annotations

import os
import struct

from inference.model.errors import GGUFError

# 64 MiB hold a vocabulary of a million tokens with its merges and scores several times over.
MAX_HEADER_BYTES = 64 * 2**20
# Bytes fetched at a time. The header is copied out of the file, not mapped: a file that shrinks
# while it is parsed gives a refusal where a mapping would give SIGBUS.
WINDOW_BYTES = 2**20

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


def quoted(text: str) -> str:
    """A name from an untrusted file, fit for a message: control characters escaped, at most 80 long."""
    shown = ascii(text)
    return shown if len(shown) <= 80 else f"{shown[:76]}...{shown[0]}"


class Cursor:
    """Reads forward through the first `size` bytes of an open file.

    `field` in every method names the thing being read, for the GGUFError raised when it is not there.
    """

    def __init__(self, fd: int, size: int) -> None:
        self._fd = fd
        self._size = size
        self._end = min(size, MAX_HEADER_BYTES)
        self._start = 0  # file offset of the window
        self._window = b""
        self._at = 0  # next byte within the window

    @property
    def position(self) -> int:
        return self._start + self._at

    @property
    def remaining(self) -> int:
        """Bytes that may still be read."""
        return self._end - self.position

    def take(self, num_bytes: int, field: str) -> bytes:
        self.require(num_bytes, field)
        if self._at + num_bytes > len(self._window):
            self._slide(num_bytes, field)
        begin, self._at = self._at, self._at + num_bytes
        return self._window[begin : self._at]

    def require(self, num_bytes: int, field: str) -> None:
        """Refuse what cannot fit in the rest of the file, before it is read or allocated."""
        if num_bytes <= self.remaining:
            return
        if self.position + num_bytes <= self._size:
            raise GGUFError(field, f"reaches past the {MAX_HEADER_BYTES} bytes a header may have")
        left = self._size - self.position
        raise GGUFError(field, f"needs {num_bytes} bytes, but the file ends after {left} more")

    def u32(self, field: str) -> int:
        return int(_U32.unpack(self.take(4, field))[0])

    def u64(self, field: str) -> int:
        return int(_U64.unpack(self.take(8, field))[0])

    def string(self, field: str) -> str:
        raw = self.take(self.u64(field), field)
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError as error:
            raise GGUFError(field, "is not valid UTF-8") from error

    def strings(self, count: int, field: str) -> list[str]:
        """`count` strings. One tight loop: vocabularies hold hundreds of thousands of them."""
        found: list[str] = []
        append, unpack_length = found.append, _U64.unpack_from
        while True:
            window, at = self._window, self._at
            last_length = len(window) - 8
            try:
                while at <= last_length and len(found) < count:
                    begin = at + 8
                    end = begin + unpack_length(window, at)[0]
                    if end > len(window):
                        break
                    append(str(window[begin:end], "utf-8"))
                    at = end
            except UnicodeDecodeError as error:
                raise GGUFError(f"{field}[{len(found)}]", "is not valid UTF-8") from error
            self._at = at
            if len(found) == count:
                return found
            # The next string reaches past the window: reading it alone moves the window on.
            append(self.string(f"{field}[{len(found)}]"))

    def _slide(self, num_bytes: int, field: str) -> None:
        """Move the window to the position, with at least num_bytes in it."""
        self._start, self._at = self.position, 0
        wanted = min(max(num_bytes, WINDOW_BYTES), self._end - self._start)
        self._window = os.pread(self._fd, wanted, self._start)
        if len(self._window) < num_bytes:
            raise GGUFError(field, "cannot be read: the file became shorter")
