// Included before a kernel's source when g++ compiles it as host C++: CUDA's words in terms of the host's.
#pragma once
#include <cstdint>

#define __CUDA_CPU_EMU__ 1
#define __CUDA_ARCH__ 370

#ifdef EMULATED_SCAN  // the host compiler looks for kernels in the preprocessed text
#define __global__ EMULATED_GLOBAL
#else
#define __global__ __attribute__((noinline))
#endif
#define __device__
#define __host__
#define __constant__
#define __shared__ thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

#include "arguments.h"
#include "checks.h"
#include "intrinsics.h"
#include "shared_memory.h"
#include "thread_block.h"
#include "vector_types.h"
