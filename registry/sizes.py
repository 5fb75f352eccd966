"""Counts, and counts of bytes, as people read them. Knows nothing about what is measured."""

from __future__ import annotations

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def format_bytes(num_bytes: int) -> str:
    """`8482560409` -> `7.9 GiB`. One decimal from a MiB up, whole numbers below."""
    if num_bytes >= GIB:
        return f"{num_bytes / GIB:.1f} GiB"
    if num_bytes >= MIB:
        return f"{num_bytes / MIB:.1f} MiB"
    if num_bytes >= KIB:
        return f"{num_bytes / KIB:.0f} KiB"
    return counted(num_bytes, "byte")


def counted(count: int, noun: str) -> str:
    """`1 replica`, `2 replicas`, `8,192 tokens`: of nouns that take an s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_count(count: int) -> str:
    """`134515008` -> `135 M`; `0` -> `unknown`."""
    if count >= 1_000_000_000:
        return f"{count / 1e9:.1f} B"
    if count >= 1_000_000:
        return f"{count / 1e6:.0f} M"
    return str(count) if count else "unknown"
