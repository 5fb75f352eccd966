"""Names of full pages: who may share them, and every token up to their end, as one hash. Knows no pages.

A name is the hash of the name before it and of the page's own tokens, the first one's of tenant and
adapter. So equal names mean the same tenant, adapter and prefix, and nobody can make a name of
another tenant's page, whatever tokens are sent.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from accel.backend import PAGE_LEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt


def root_name(tenant: str, adapter: str = "") -> bytes:
    """What all names of one tenant and adapter descend from."""
    return _hash(_hash(tenant.encode()) + _hash(adapter.encode()))


def next_names(parent: bytes, ids: npt.NDArray[np.int32]) -> Iterator[bytes]:
    """Names of the pages after `parent` that ids (T,) fill; tokens of an unfinished page have none."""
    for start in range(0, len(ids) - PAGE_LEN + 1, PAGE_LEN):
        parent = _hash(parent + ids[start : start + PAGE_LEN].tobytes())
        yield parent


def _hash(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=32).digest()
