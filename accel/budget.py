"""What a die may give, and what others hold of it. Pure arithmetic; knows nothing about drivers."""

from __future__ import annotations

from dataclasses import dataclass

RESERVE_BYTES = 1 << 30


@dataclass(frozen=True)
class Budget:
    """`budget_bytes` for models; `external_bytes` of it are held by other processes."""

    budget_bytes: int
    external_bytes: int


def budget_of(total_bytes: int, free_bytes: int, own_bytes: int, reserve_bytes: int) -> Budget:
    """From what the driver says of a die, and what this process has allocated on it.

    The reserve stays out of the budget: for the driver, for contexts (ours too) and for what comes and
    goes. So other processes count only as far as they exceed it.
    """
    budget_bytes = max(total_bytes - reserve_bytes, 0)
    taken_bytes = total_bytes - free_bytes - own_bytes
    return Budget(budget_bytes, min(max(taken_bytes - reserve_bytes, 0), budget_bytes))
