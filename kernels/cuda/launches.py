"""Launch geometry: how many thread blocks, and of which kernel. Pure functions; knows no die and no driver.

Nothing here may change a row's bits: kernels of all widths add in one order (matmul.cu), and the length of
a run of positions is one number for an executor's whole life.
"""

from __future__ import annotations

from kernels.cuda.catalogue import GROUPS, MATMULS, MAX_GROUP, MatmulShape

Grid = tuple[int, int, int]

# A GK210 die has 13 multiprocessors; fewer thread blocks than two each leave some of them idle.
_FEW_BLOCKS = 26
_MAX_RUNS = 16
_LEAST_RUN_LEN = 256
_TILE = 128  # positions, in attention.cu


def ceil_div(n: int, by: int) -> int:
    return -(-n // by)


def matmul_shape(num_rows: int, num_tokens: int) -> MatmulShape:
    """The entry of matmul.cu for so many rows of weights and tokens."""
    narrow, one, *wider = MATMULS
    if num_tokens == 1:
        return narrow if ceil_div(num_rows, GROUPS * one.rows) < _FEW_BLOCKS else one
    return next((shape for shape in wider if shape.tokens >= num_tokens), wider[-1])


def matmul_grid(shape: MatmulShape, num_rows: int, num_tokens: int) -> Grid:
    return (ceil_div(num_tokens, shape.tokens), ceil_div(num_rows, GROUPS * shape.rows), 1)


def embed_grid(k: int, num_tokens: int) -> Grid:
    return (ceil_div(k, 32 * 64), num_tokens, 1)


def value_grid(width: int, num_tokens: int) -> Grid:
    """One thread a value, 128 a thread block."""
    return (ceil_div(width, 128), num_tokens, 1)


def rope_grid(num_heads: int, num_kv_heads: int, num_tokens: int) -> Grid:
    return (ceil_div(num_heads + 2 * num_kv_heads, 4), num_tokens, 1)


def head_parts(group: int) -> int:
    """Into how many parts the query heads of one key/value head are cut: thread blocks take MAX_GROUP."""
    return next(
        parts for parts in range(1, group + 1) if not group % parts and group // parts <= MAX_GROUP
    )


def run_len(max_len: int) -> int:
    """Positions a thread block of attention takes, for sequences of at most `max_len`."""
    return max(_LEAST_RUN_LEN, ceil_div(ceil_div(max_len, _MAX_RUNS), _TILE) * _TILE)


def num_runs(length: int, run: int) -> int:
    """Runs that hold positions below `length`."""
    return ceil_div(length, run)
