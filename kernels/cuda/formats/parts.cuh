// What the packed formats share: the planes a weight lies in, and bytes to floats.
//
// A weight of `num_rows` rows and k values is cut into blocks of 32 values; block b of row r is number
// r * (k / 32) + b, and plane p holds its part of that block at number * bytes_p. Formats with scales of
// 256 values find theirs at number / 8. A format is a struct with
//   load(planes, number)  read the block, all of it if it is small
//   four(j, v)            its values 4 j .. 4 j + 3 as floats
//   UNROLL                how many j a loop spells out: 8 where the block is in registers, which have no index
#pragma once
#include "bytes.cuh"
#include "half.cuh"

struct Planes {
    const void* quants;  // the low bits, or the floats themselves
    const void* highs;   // the bits above, where the format has any
    const void* scales;  // one entry a block
    const void* supers;  // one entry every eight blocks
};

// Word j of four held in registers; j is a constant once loops are unrolled.
__device__ inline unsigned word_of(const uint4& w, int j) {
    return j == 0 ? w.x : j == 1 ? w.y : j == 2 ? w.z : w.w;
}

// Values 4 j .. 4 j + 3 of 32 nibbles: byte i holds value i in its low half and value i + 16 in its high half.
__device__ inline unsigned nibbles_of(const uint4& w, int j) {
    return (word_of(w, j & 3) >> (j < 4 ? 0 : 4)) & 0x0f0f0f0fu;
}

// Two bits each: bits 2 (j % 4) of byte i of word j / 4 are those of value 4 j + i.
__device__ inline unsigned pairs_of(const uint2& w, int j) {
    return ((j < 4 ? w.x : w.y) >> 2 * (j & 3)) & 0x03030303u;
}

// One bit each: bit j of byte i is that of value 4 j + i.
__device__ inline unsigned bits_of(unsigned w, int j) { return (w >> j) & 0x01010101u; }
