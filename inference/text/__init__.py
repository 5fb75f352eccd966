"""Text: tokenizers, templates, incremental detokenising, stop strings, channels. No engine, no HTTP."""
