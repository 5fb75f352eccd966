"""A CUDA driver on this host's CPU: real pycuda runs on it, and the kernels are the same files.

`driver/` is the driver (libcuda.so.1) in C++, `kernel/` what a kernel is compiled with, the modules here
build both. It has as many K80 dies as one asks for, and strictness that no GPU has: what hardware leaves
undefined ends a launch with a message.
"""
