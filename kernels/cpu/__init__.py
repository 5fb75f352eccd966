"""numba SIMD kernels, one op a file. Importing a module of this package imports numba."""
