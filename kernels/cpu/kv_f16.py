"""Keys and values as float16.

Owns how one position enters a head's part of a page and how the part becomes float32; knows no
attention. Keys are (dim, PAGE), values (PAGE, dim).
"""

from kernels.cpu.layout import PAGE
from kernels.cpu.simd import kernel_part, load_f16, scatter_f16, store_f, store_f16


@kernel_part
def append_key(part, offset, v, d):
    """16 features from d on."""
    scatter_f16(part + 2 * (d * PAGE + offset), v, 2 * PAGE)


@kernel_part
def append_value(part, offset, v, d, dim):
    store_f16(part + 2 * (offset * dim + d), v)


@kernel_part
def widen_keys(part, dim, dst):
    for d in range(dim):
        store_f(dst + 128 * d, load_f16(part + 64 * d))
        store_f(dst + 128 * d + 64, load_f16(part + 64 * d + 32))


@kernel_part
def widen_values(part, dim, dst):
    for at in range(0, 2 * PAGE * dim, 64):
        store_f(dst + 2 * at, load_f16(part + at))
        store_f(dst + 2 * at + 64, load_f16(part + at + 32))
