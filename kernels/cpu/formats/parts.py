"""What several weight formats share: fetching ahead, moving words into lanes, GGML's 6-bit scales."""

from __future__ import annotations

from kernels.cpu.simd import i32, inline_part, load1_i32, load1_u8, prefetch, store1_i32

# How far ahead of its loads a tile fetches. The CPU's own prefetching stops at every page of 4 KiB: on a
# Zen 3 one row of Q4_1 weights that are in no cache took 1.2 times as long without, four rows 1.27. Eight
# rows of Q8_0 use up 3 KiB in 140 ns, which is less than memory takes: on a Zen 4, 6 KiB make eight
# sequences of a model of 1 B parameters 1.2 times as fast as 3 KiB (7 and 10 KiB: no faster).
AHEAD_BYTES = 6144


@inline_part
def fetch_ahead(at, num_bytes):
    """Fetch what lies AHEAD_BYTES after the num_bytes at `at`: a group, and then the thread's next one."""
    for line in range((num_bytes + 63) // 64):
        prefetch(at + AHEAD_BYTES + 64 * line)


@inline_part
def move_words(src, dst, lane, count):
    """32-bit word i at src -> lane `lane` of line i at dst."""
    for i in range(count):
        store1_i32(dst + 64 * i + 4 * lane, load1_i32(src + 4 * i))


@inline_part
def six_bit_pair(src, s):
    """(scale, minimum) of sub-block s out of the 12 bytes in which Q4_K and Q5_K pack eight of each."""
    first, second = load1_u8(src + s % 4), load1_u8(src + 4 + s % 4)
    if s < 4:
        return first & i32(63), second & i32(63)
    last = load1_u8(src + 8 + s % 4)
    return (last & i32(15)) | ((first >> i32(6)) << i32(4)), (last >> i32(4)) | (
        (second >> i32(6)) << i32(4)
    )
