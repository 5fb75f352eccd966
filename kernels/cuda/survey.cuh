// What the kernels of a survey share: its records, and floats as integers of the same order.
//
// A survey of a row of logits finds, on the die, what a choice of a token needs: the largest logit and its id, the
// sum of the weights exp((logit - peak) scale), one token drawn by them, and the heaviest tokens in order. The
// launches: group_peaks, row_peak, and for surveys that weigh (scale > 0) weigh_runs, heaviest where some are kept, draw.
#pragma once

#define GROUPS 2048     // of a row: group g has the values g, g + GROUPS, g + 2 GROUPS, ...
#define COLLECTED 2048  // most values of a row that are put in order
#define RUN 256         // weights are added up in runs of so many values

// kernels/cuda/survey.py has the same layouts.
struct Survey {
    double uniform;  // of [0, 1), to draw by; below 0: nothing is drawn
    int row;         // of the logits
    float scale;     // inverse temperature; 0: the peak alone is wanted
    int keep;        // how many of the heaviest are wanted
    int start;       // where they go
};

struct Finding {
    double total;  // of the weights
    float peak;    // the largest logit: NaN where there is a NaN
    int best;      // its id, the lowest of equals
    int drawn;     // the id drawn
    int num_collected;
    unsigned bound;  // at least `keep` values have a key that is not smaller
    float drawn_logit;
};

// A value's key in the high half, the complement of its id in the low one: the larger pair is the larger value, or
// the lower id of equal values. 0 is below them all.
typedef unsigned long long Pair;

// NaN above everything, as the largest float; -0 the same as 0.
__device__ inline unsigned key_of(float v) {
    if (v != v) return 0xffffffffu;
    unsigned bits = __float_as_uint(v + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ inline float value_of(unsigned key) {
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

__device__ inline Pair pair_of(float v, int id) { return (Pair)key_of(v) << 32 | (0xffffffffu - (unsigned)id); }
__device__ inline unsigned key_in(Pair pair) { return (unsigned)(pair >> 32); }
__device__ inline int id_in(Pair pair) { return (int)(0xffffffffu - (unsigned)pair); }

__device__ inline float weight_of(float v, float peak, float scale) { return expf((v - peak) * scale); }
