"""What a model file takes of dies, to the byte: its program is recorded and planned, and nothing is loaded.

Owns the way from a file to that answer, and remembers answers; knows no database.
"""

from __future__ import annotations

import functools
from pathlib import Path

from django.conf import settings

from accel.cuda.backend import plan_stages
from accel.cuda.plan import KINDS
from accel.errors import UnsupportedProgram
from inference.engine_settings import engine_settings
from inference.loading import EngineSettings, limits, sizes
from inference.model.architectures import record
from inference.model.errors import ModelError
from inference.model.fusion import fuse
from inference.model.gguf import read_gguf
from registry.errors import PlacementRefused


def die_bytes(path: str, context_len: int, quantise: bool, num_dies: int) -> tuple[int, ...] | None:
    """Bytes on each of so many dies, in the order of the layers; None where the file cannot be read.

    Raises: PlacementRefused, for a model that so many dies cannot run.
    """
    try:
        stat = Path(path).stat()
        stamp = (stat.st_mtime_ns, stat.st_size)
        engine = engine_settings(settings.PANTHEON)
        found = _measured(path, stamp, engine, context_len, quantise, num_dies)
    except (OSError, ModelError):
        return None  # whoever loads it will hear why
    if isinstance(found, str):
        raise PlacementRefused(found)
    return found


@functools.lru_cache(maxsize=256)
def _measured(
    path: str,
    stamp: tuple[int, int],
    engine: EngineSettings,
    context_len: int,
    quantise: bool,
    num_dies: int,
) -> tuple[int, ...] | str:
    """The bytes, or why dies cannot run the file as it was at `stamp`."""
    with read_gguf(Path(path)) as file:
        model, program = record(file, quantise=quantise)
        sized = limits(
            sizes(engine, model.context_len, context_len), engine.num_threads, engine.kv_type
        )
        try:
            plans = plan_stages(fuse(program), sized, num_dies)
        except UnsupportedProgram as error:
            return str(error)
    return tuple(plan.num_bytes(*KINDS) for plan in plans)
