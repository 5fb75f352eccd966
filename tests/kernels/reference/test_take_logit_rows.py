"""take_logit_rows keeps the rows that want logits, alone or with the last norm."""

from __future__ import annotations

import numpy as np

from kernels.reference.rms_norm import rms_norm
from kernels.reference.take_logit_rows import take_logit_rows, take_rms_norm

X = np.arange(12, dtype=np.float32).reshape(4, 3)
ROWS = np.array([0, 2], np.int32)


def test_it_keeps_order():
    assert take_logit_rows(X, ROWS).tolist() == X[[0, 2]].tolist()


def test_no_rows():
    assert take_logit_rows(X, np.array([], np.int32)).shape == (0, 3)


def test_with_the_last_norm():
    gain = np.array([1, 2, 3], np.float32)
    y = take_rms_norm(X, ROWS, gain, 1e-5)
    np.testing.assert_array_equal(y, rms_norm(X[[0, 2]], gain, 1e-5))
