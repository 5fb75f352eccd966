"""Where compiled kernels are kept, and for which instruction set they are compiled.

Owns the choice of folder and instruction set, made once per process before any kernel is imported;
knows no kernel. numba keys a cached function by the content of its *own* file only, while kernels are
inlined across files, so an edit elsewhere would go unnoticed and old machine code would run. A hash
of all kernel sources in the folder's name closes that hole; the CPU's name and features are in
numba's own key.
"""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from pathlib import Path

from kernels.cpu import amx_permission
from kernels.cpu.errors import AlreadyConfigured, IsaRefused, UnknownIsa

DEFAULT_FOLDER = Path.home() / ".cache" / "pantheon" / "kernels"

# What differs between them is the dot product of bytes (kernels.cpu.simd.dots, for many rows
# kernels.cpu.wide); results do not differ.
ISAS = ("amx", "avx512vnni", "avxvnni", "avx2", "ssse3", "generic")


@dataclass(frozen=True)
class Choice:
    folder: Path  # of this state of the sources and this instruction set
    isa: str

    def __str__(self) -> str:
        return f"{self.isa} in {self.folder}"


_choice: Choice | None = None


def configure(folder: Path | None = None, isa: str | None = None) -> Choice:
    """Choose, once per process; what is None is left as it is, or else as the host suggests.

    Kernels that are imported before any call get the defaults. Raises: UnknownIsa, IsaRefused,
    AlreadyConfigured.
    """
    global _choice
    if isa is not None and isa not in ISAS:
        raise UnknownIsa(isa, ISAS)
    if isa == "amx" and not amx_permission.request():
        raise IsaRefused(isa)
    if _choice is None:
        from numba import config

        isa = isa or host_isa()
        _choice = Choice((folder or DEFAULT_FOLDER) / f"{source_digest()}-{isa}", isa)
        config.CACHE_DIR = str(_choice.folder)
    wanted = Choice(folder / _choice.folder.name if folder else _choice.folder, isa or _choice.isa)
    if wanted != _choice:
        raise AlreadyConfigured(_choice, wanted)
    return _choice


def source_digest(root: Path = Path(__file__).parent) -> str:
    """16 hex digits that change with any kernel source below root."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def host_isa() -> str:
    """The best instruction set that numba will compile for on this host and that its kernel allows."""
    needs = {
        "amx": {
            "amx-tile",
            "amx-int8",
            "avx512vnni",
            "avx512f",
            "avx512bw",
            "avx512vl",
            "fma",
            "f16c",
        },
        "avx512vnni": {"avx512vnni", "avx512f", "avx512bw", "avx512vl", "fma", "f16c"},
        "avxvnni": {"avxvnni", "avx2", "fma", "f16c"},
        "avx2": {"avx2", "fma", "f16c"},
        "ssse3": {"ssse3"},
        "generic": set(),
    }
    features = _features()
    fitting = [isa for isa in ISAS if needs[isa] <= features]
    return next(isa for isa in fitting if isa != "amx" or amx_permission.request())


def has_half_conversion() -> bool:
    """Whether the CPU converts float16: every 64-bit Arm does, x86 since F16C."""
    return platform.machine() not in ("x86_64", "AMD64") or "f16c" in _features()


def _features() -> set[str]:
    from llvmlite import binding
    from numba import config

    if config.CPU_FEATURES is None:
        return {name for name, there in binding.get_host_cpu_features().items() if there}
    return {name[1:] for name in config.CPU_FEATURES.split(",") if name.startswith("+")}
