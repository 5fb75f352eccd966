// What attend_run and combine_runs agree on: the positions a row sees, and the partial result of a run.
#pragma once

#define PARTIAL (HEAD_DIM + 2)  // floats: values, the largest score, the sum of weights

struct Span {
    int first, end;  // positions the row sees
};

__device__ inline Span seen(int position, int window) {
    Span span = {window > 0 && position >= window ? position - window + 1 : 0, position + 1};
    return span;
}
