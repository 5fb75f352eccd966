"""The weight formats the CPU kernels compute with: one table, and the entry points by name.

Owns which formats are native; each module of this package owns its formats' bytes. `ENTRIES` maps
"matmul_q4_1", "embed_q4_1" and "repack_q4_1" to the Python functions to compile.
"""

from __future__ import annotations

from kernels.cpu.formats import q4
from kernels.cpu.weight_format import Format

_MODULES = (q4,)

FORMATS = {
    value.name: value
    for module in _MODULES
    for value in vars(module).values()
    if isinstance(value, Format)
}
ENTRIES = {
    f"{kind}_{name.lower()}": getattr(module, f"{kind}_{name.lower()}")
    for module in _MODULES
    for name in FORMATS
    for kind in ("matmul", "embed", "repack")
    if hasattr(module, f"{kind}_{name.lower()}")
}
