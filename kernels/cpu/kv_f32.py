"""Keys and values as float32: as they come.

Owns how one position enters a head's part of a page and how the part is copied out; knows no
attention. Keys are (dim, PAGE), values (PAGE, dim).
"""

from kernels.cpu.layout import PAGE
from kernels.cpu.simd import kernel_part, load_f, scatter_f, store_f


@kernel_part
def append_key(part, offset, v, d):
    """16 features from d on."""
    scatter_f(part + 4 * (d * PAGE + offset), v, 4 * PAGE)


@kernel_part
def append_value(part, offset, v, d, dim):
    store_f(part + 4 * (offset * dim + d), v)


@kernel_part
def widen(part, dim, dst):
    """Keys or values of a page."""
    for at in range(0, 4 * PAGE * dim, 64):
        store_f(dst + at, load_f(part + at))
