"""The CPU backend: lowers a fused program to a table of op records and runs it. Imports numba lazily."""
