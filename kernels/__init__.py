"""Kernels: what each op computes, once per backend. Knows nothing about models, requests or Django."""
