// The least number of thread blocks on a GK210 multiprocessor, which sets the most registers a thread may take.
// Its successors have half as many registers; half as many blocks leave a thread the same.
#pragma once

#if __CUDA_ARCH__ < 500
#define LEAST_BLOCKS(n) (n)
#else
#define LEAST_BLOCKS(n) ((n) / 2)
#endif
