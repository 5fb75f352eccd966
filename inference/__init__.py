"""The engine app: HTTP API, text, engine and models, and the runtime that ties them together."""
