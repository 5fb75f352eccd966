"""The host's own resources: memory that can still be had, and cores.

Owns the reading of /proc and cgroup files; decides nothing.
"""

from __future__ import annotations

import os
from pathlib import Path


def num_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def available_bytes(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Memory that can be allocated without swapping, within the cgroup's limit where there is one."""
    return min(_meminfo_available(proc / "meminfo"), _cgroup_left(cgroup))


def _meminfo_available(path: Path) -> int:
    for line in path.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{path} has no MemAvailable line.")


def _cgroup_left(folder: Path) -> int:
    """cgroup v2's memory.max less memory.current, page cache that can be dropped not counted as used."""
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except OSError:
        return 1 << 62
    if limit == "max":
        return 1 << 62
    return max(0, int(limit) - used + int(stat.get("inactive_file", 0)))
