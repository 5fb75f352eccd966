"""Model files and architectures: from a GGUF file to a recorded program. Computes nothing."""
