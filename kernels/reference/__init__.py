"""Every op in NumPy float32, one op a file: the oracle other backends are tested against."""
