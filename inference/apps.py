"""The Django app of the engine: commands and the API live here, no database tables do."""

from __future__ import annotations

from django.apps import AppConfig


class InferenceConfig(AppConfig):
    name = "inference"

    def ready(self) -> None:
        from registry.demand import measure_with

        measure_with(_die_bytes)


def _die_bytes(
    path: str, context_len: int, quantise: bool, num_dies: int
) -> tuple[int, ...] | None:
    from inference.die_needs import die_bytes  # brings the backends, which few commands need

    return die_bytes(path, context_len, quantise, num_dies)
