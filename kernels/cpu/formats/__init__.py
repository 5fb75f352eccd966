"""The weight formats the CPU kernels compute with: one table, and the entry points by name.

Owns which formats can be computed with; each module of this package owns its formats' bytes. `ENTRIES` maps
names like "matmul_q4_1", "embed_q4_1" and "repack_q4_1" to the Python functions to compile.
"""

from __future__ import annotations

from kernels.cpu.formats import floats, iq4, q2_k, q3_k, q4, q5, q6_k, q8_0, q45_k
from kernels.cpu.weight_format import Format

_HOMES = {
    value.name: module
    for module in (floats, q4, iq4, q5, q8_0, q2_k, q3_k, q45_k, q6_k)
    for value in vars(module).values()
    if isinstance(value, Format)
}
FORMATS: dict[str, Format] = {name: getattr(home, name) for name, home in _HOMES.items()}
ENTRIES = {
    entry: getattr(home, entry)
    for name, home in _HOMES.items()
    for entry in (f"{kind}_{name.lower()}" for kind in ("matmul", "embed", "repack"))
}
