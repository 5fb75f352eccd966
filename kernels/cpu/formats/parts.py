"""What several weight formats share. Owns moving words into lanes and GGML's 6-bit scales."""

from __future__ import annotations

from kernels.cpu.simd import i32, inline_part, load1_i32, load1_u8, store1_i32


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
