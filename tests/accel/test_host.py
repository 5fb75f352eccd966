"""Memory the host can still give, read from /proc and the cgroup."""

from __future__ import annotations

from pathlib import Path

from accel import host


def write(folder: Path, **files: str) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name.replace("_dot_", ".")).write_text(text)
    return folder


def test_meminfo_decides_where_there_is_no_cgroup_limit(tmp_path: Path) -> None:
    proc = write(tmp_path / "proc", meminfo="MemTotal: 100 kB\nMemAvailable:  64 kB\n")
    assert host.available_bytes(proc, tmp_path / "none") == 64 * 1024


def test_the_cgroup_limit_wins_and_droppable_cache_counts_as_free(tmp_path: Path) -> None:
    proc = write(tmp_path / "proc", meminfo="MemAvailable: 1000000 kB\n")
    cgroup = write(
        tmp_path / "cgroup",
        memory_dot_max="1000000\n",
        memory_dot_current="900000\n",
        memory_dot_stat="anon 1\ninactive_file 200000\n",
    )
    assert host.available_bytes(proc, cgroup) == 300_000


def test_an_unlimited_cgroup_does_not_count(tmp_path: Path) -> None:
    proc = write(tmp_path / "proc", meminfo="MemAvailable: 7 kB\n")
    cgroup = write(
        tmp_path / "cgroup", memory_dot_max="max", memory_dot_current="1", memory_dot_stat=""
    )
    assert host.available_bytes(proc, cgroup) == 7 * 1024


def test_this_host_has_cores_and_memory() -> None:
    assert host.num_cores() >= 1
    assert host.available_bytes() > 0
