"""Backends: compile a program and run its steps. Knows nothing about requests, text or Django."""
