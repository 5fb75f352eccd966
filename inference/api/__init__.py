"""The HTTP API: bodies, routes, streams and errors on OpenAI's wire. Never reaches accel or kernels."""
