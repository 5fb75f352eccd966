"""Specifications shared by all backends: quant formats, ops, programs. Holds no computation."""
