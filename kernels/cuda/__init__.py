"""Kernels for dies: CUDA sources, one op a file, and what a host must know to launch them. No driver."""
