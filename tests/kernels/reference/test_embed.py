"""embed takes rows of a table."""

from __future__ import annotations

import numpy as np

from kernels.reference.embed import embed


def test_it_takes_rows_and_scales():
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    y = embed(table, np.array([3, 0, 3], np.int32), 2.0)
    assert y.tolist() == [[18, 20, 22], [0, 2, 4], [18, 20, 22]]
    assert y.dtype == np.float32
