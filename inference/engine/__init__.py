"""The engine: sequences, pages, scheduling, sampling and the worker thread. Token ids only, never text."""
