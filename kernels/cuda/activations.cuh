// The activations of gated ops. tanhf and expf are CUDA's own, accurate to 2 ulp.
#pragma once

#define SILU 1
#define GELU 2

__device__ inline float activated(int kind, float x) {
    if (kind == SILU) return x / (1.0f + expf(-x));
    // tanh form: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
    float inner = 0.7978845608028654f * fmaf(0.044715f * x * x, x, x);
    return 0.5f * x * (1.0f + tanhf(inner));
}
