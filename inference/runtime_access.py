"""The process's one runtime, for views that Django constructs without arguments. Set once at start."""

from __future__ import annotations

from inference.runtime import Runtime

_runtime: Runtime | None = None


def set_runtime(runtime: Runtime | None) -> None:
    global _runtime
    _runtime = runtime


def get_runtime() -> Runtime:
    if _runtime is None:
        raise RuntimeError("The runtime is not started; pantheon_site.asgi starts it.")
    return _runtime
