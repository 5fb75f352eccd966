"""Kernels as host libraries: g++ compiles the same source that NVRTC does.

Owns the flags and the entry points; knows no kernel. A kernel `name` becomes the function
`emulated_launch_<name>` of an ELF library that the emulated driver loads as a module.
"""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from accel.cuda.nvrtc import KernelRefused

KERNEL_HEADERS = Path(__file__).parent / "kernel"
DYNAMIC_SHARED_BYTES = 48 << 10  # as in kernel/shared_memory.h

_FLAGS = (
    "-std=c++14",
    "-O2",
    "-g1",  # line numbers, for faults
    "-fPIC",
    "-ffp-contract=off",
    "-fno-gnu-unique",  # a module of each die has its own variables, also those of templates
    "-fvisibility-inlines-hidden",
    "-fno-extern-tls-init",
    "-fsanitize=alignment,bounds",
    "-fno-sanitize-recover=alignment,bounds",
    "-U_FORTIFY_SOURCE",
    "-Wno-unknown-pragmas",
)
_KERNEL = re.compile(
    r"EMULATED_GLOBAL\s+(?:__attribute__\s*\(\(.*?\)\)\s*)?void\s+(\w+)\s*\(", re.DOTALL
)
_EXTERN_SHARED = re.compile(r"\sTLS\s.*\sUND\s+(?P<name>\w+)")


@functools.cache
def identity() -> str:
    """Changes whenever the same source could give another image."""
    digest = hashlib.sha256()
    for header in sorted(KERNEL_HEADERS.glob("*.h")):
        digest.update(header.read_bytes())
    digest.update("\0".join((_gcc_version(), *_all_flags())).encode())
    return f"host {digest.hexdigest()}"


def compile_for_host(source: str, names: tuple[str, ...] = ()) -> bytes:
    """names: "-DNAME=VALUE" options. Raises: KernelRefused, with the compiler's own words."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        kernel = at / "kernel.cu"
        kernel.write_text(source)
        base = ("-x", "c++", f"-I{KERNEL_HEADERS}", "-include", "emulated_cuda.h", *names)
        # Names come from the preprocessed text, so that kernels made by macros are found as well.
        text = _run(("g++", "-std=c++14", *base, "-E", "-P", "-DEMULATED_SCAN", str(kernel)))
        entries = dict.fromkeys(_KERNEL.findall(text))
        unit = at / "unit.cpp"
        unit.write_text(
            f'#include "{kernel}"\n' + "".join(f"EMULATED_ENTRY({name})\n" for name in entries)
        )
        _run(("g++", *base, *_all_flags(), "-c", str(unit), "-o", str(at / "unit.o")))
        shared = at / "shared.c"
        shared.write_text(_dynamic_shared(_extern_shared_names(at / "unit.o")))
        image = at / "image.so"
        _run(("gcc", "-fPIC", "-c", str(shared), "-o", str(at / "shared.o")))
        _run(("g++", "-shared", "-o", str(image), str(at / "unit.o"), str(at / "shared.o")))
        return image.read_bytes()


def _extern_shared_names(unit: Path) -> list[str]:
    """The `extern __shared__` arrays: thread-local symbols nobody has defined yet."""
    symbols = _run(("readelf", "-sW", str(unit)))
    return sorted(
        {found["name"] for found in map(_EXTERN_SHARED.search, symbols.splitlines()) if found}
    )


def _dynamic_shared(names: list[str]) -> str:
    """C source of the dynamic shared buffer. All names of it are one memory, as on a die."""
    if not names:
        return "char *emulated_dynamic_shared(void) { return 0; }\n"
    first, *others = names
    buffer = f"_Thread_local unsigned char %s[{DYNAMIC_SHARED_BYTES}]"
    lines = [
        f"__attribute__((aligned(16))) {buffer % first};",
        *(f'extern {buffer % name} __attribute__((alias("{first}")));' for name in others),
        f"char *emulated_dynamic_shared(void) {{ return (char *){first}; }}",
    ]
    return "\n".join(lines) + "\n"


@functools.cache
def _all_flags() -> tuple[str, ...]:
    """With the host's own instructions for fmaf and half floats; without them both are slow."""
    processor = Path("/proc/cpuinfo").read_text()
    own = (word for word in ("fma", "f16c") if re.search(rf"\b{word}\b", processor))
    return (*_FLAGS, *(f"-m{word}" for word in own))


@functools.cache
def _gcc_version() -> str:
    return _run(("g++", "-dumpfullversion", "-dumpmachine")).strip()


def _run(command: tuple[str, ...]) -> str:
    if shutil.which(command[0]) is None:
        raise KernelRefused("host", f"{command[0]} is not installed")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise KernelRefused("host", done.stderr)
    return done.stdout
