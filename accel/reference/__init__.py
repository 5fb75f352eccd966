"""Backends in NumPy float32: the oracle. Slow and obvious."""
