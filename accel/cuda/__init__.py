"""The CUDA backend: programs as launches on dies. The only place that imports pycuda, and only when used."""
